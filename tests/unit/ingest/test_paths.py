"""JSON paths as manifests write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.json_values import steps


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$", []),
        ("$.a", ["a"]),
        ("$.a.b-c._d", ["a", "b-c", "_d"]),
        ("$['X-GitHub-Delivery']", ["X-GitHub-Delivery"]),
        ("$.headers['a b']['']", ["headers", "a b", ""]),
        ("$['it\\'s']['a\\\\b']", ["it's", "a\\b"]),
        ("$['a.b']['[0]']['$']", ["a.b", "[0]", "$"]),
        ("$[0][12].a[3]", [0, 12, "a", 3]),
        ("$['0']", ["0"]),
        ("$['größe']", ["größe"]),
    ],
)
def test_a_path_is_names_and_places(path: str, expected: list[str | int]) -> None:
    assert steps(path) == expected


@pytest.mark.parametrize(
    "path",
    [
        "",
        "a",
        ".a",
        "$a",
        "$.",
        "$..a",
        "$.a.",
        "$.*",
        "$[*]",
        "$[-1]",
        "$[1:2]",
        "$[?(@.a)]",
        "$[a]",
        '$["a"]',
        "$['a]",
        "$['a'",
        "$['a''b']",
        "$[0",
        "$[]",
        "$.1a",
        "$.a b",
        "$ .a",
        "$.a ",
        "$[1234567890]",
        "$.größe",
        "$.a\n",
        "$['a\\']",
    ],
)
def test_a_text_that_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="is no path"):
        steps(path)


@given(st.lists(st.text() | st.integers(0, 999_999_999)))
def test_every_name_can_be_written(names: list[str | int]) -> None:
    written = "".join(
        f"[{n}]" if isinstance(n, int) else "['" + n.replace("\\", "\\\\").replace("'", "\\'") + "']" for n in names
    )
    assert steps(f"${written}") == names
