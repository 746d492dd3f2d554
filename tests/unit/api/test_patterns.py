"""Regular expressions, with one group or for a whole name: what is accepted means the same to RE2 and Python."""

import re

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pydantic_core import PydanticCustomError

from messagestore_operator.api.scalars import GroupPattern, NamePattern, TopicPattern

TEXT = pa.array(["tenant=north/a-1.json"])
GOOD = {
    "tenant=([^/]+)/": "north",
    r"^(?:tenant|dt)=(\w+?)/": "north",
    r"([0-9]{1,2})\.json$": "1",
    r"([\]a\-]{2})": "a-",
    r"\b(a)\b": "a",
    "(|x)": "",
    "x(y)": None,
    "(?:n(o)r|x)th": "o",
}
BAD = {
    **dict.fromkeys(
        ["", "a", "(a)(b)", "((a))", "(?P<n>a)", "(?i)(a)", "(?=(a))", r"\(a\)", "[(a)]", "(a)\n"], "exactly one group"
    ),
    **dict.fromkeys([r"(a)\1", "(a++)", "(a{1000})", "(a){9}", "(*)", "(a|*)", r"(\p{L})", r"(\Qa\E)"], "signs"),
    **dict.fromkeys(["(a", "a)(", "([z-a])"], "regular expression: "),
}


@pytest.mark.parametrize("pattern", GOOD)
def test_an_accepted_pattern_means_the_same_to_re2(pattern: str) -> None:
    assert GroupPattern.parse(pattern) == pattern
    (named,) = pc.extract_regex(TEXT, pattern.replace("(", "(?P<g>").replace("(?P<g>?:", "(?:")).to_pylist()
    found = re.search(pattern, TEXT[0].as_py())
    assert (named and named["g"], found and found[1]) == (GOOD[pattern],) * 2


@pytest.mark.parametrize("pattern", BAD)
def test_any_other_pattern_is_refused_with_what_to_change(pattern: str) -> None:
    with pytest.raises(PydanticCustomError, match=BAD[pattern]):
        GroupPattern.parse(pattern)


def test_a_pattern_for_names_has_no_group_and_means_the_same_to_re2() -> None:
    for pattern in ("orders[.].*", "(?:eu|us)-[a-z]+", r"a\.b", "[^_].*"):
        assert NamePattern.parse(pattern) == pattern
        names = ["orders.x", "eu-a", "a.b", "_a", "axb"]
        matched = pc.match_substring_regex(pa.array(names), f"^(?:{pattern})$").to_pylist()
        assert matched == [re.fullmatch(pattern, name) is not None for name in names]
    for pattern, words in {
        "": "without groups",
        "(a)": "signs",
        r"(?i)a": "signs",
        "a**": "signs",
        "[z-a]": "expression",
    }.items():
        with pytest.raises(PydanticCustomError, match=words):
            NamePattern.parse(pattern)


def test_the_pattern_of_a_topic_is_one_of_java() -> None:
    for pattern in ("orders[.].*", "(eu|us)-.+", "(?i)orders", r"\p{Alpha}++", "[a-z&&[^b]]", "a[^[b]]", r"\Q[\E.*"):
        assert TopicPattern.parse(pattern) == pattern
    for pattern in ("orders[", "*", "orders.(", "a{2,1}", "a)", "a\n"):
        with pytest.raises(ValueError, match="must be a regular expression"):
            TopicPattern.parse(pattern)
