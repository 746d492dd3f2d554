"""Scalars that kubectl reads otherwise than YAML 1.2; tests/operator compares with kubectl itself."""

import pytest

from messagestore_operator.manifests.yaml_tree import read_documents


def values_and_problems(text: str) -> tuple[object, list[str]]:
    documents, problems = read_documents("a.yaml", text)
    return documents[0].data, [str(problem) for problem in problems]


@pytest.mark.parametrize(
    ("text", "theirs", "own"),
    [
        ("0100", "64", "100"),
        ("-010", "-8", "-10"),
        ("on", "true", '"on"'),
        ("No", "false", '"No"'),
        ("y", "true", '"y"'),
    ],
)
def test_a_scalar_that_kubectl_reads_otherwise_is_refused(text: str, theirs: str, own: str) -> None:
    _, problems = values_and_problems(f"spec: {{types: [ok, {text}]}}")
    words = f"kubectl reads {text} as {theirs}, YAML 1.2 as {own}: put it in quotes, or write what it means"
    assert problems == [f"a.yaml:1: spec.types[1]: {words}"]


def test_quotes_make_it_a_text() -> None:
    assert values_and_problems("""a: ["0100", 'on', "1e400"]""") == ({"a": ["0100", "on", "1e400"]}, [])


def test_a_scalar_that_both_read_alike_is_taken() -> None:
    text = "a: [0, 08, 1_000, 0x1F, 0o17, 1e3, .5, true, TRUE, ~, 1:30, 2026-01-01, 1.2.3, P1D, _1, on-call]"
    alike = [0, 8, 1000, 31, 15, 1000.0, 0.5, True, True, None, "1:30", "2026-01-01", "1.2.3", "P1D", "_1", "on-call"]
    assert values_and_problems(text) == ({"a": alike}, [])


@pytest.mark.parametrize(("key", "theirs"), [("on", '"true"'), ("0100", '"64"'), ("1_0", '"10"'), ("True", '"true"')])
def test_a_key_that_kubectl_reads_otherwise_is_refused(key: str, theirs: str) -> None:
    _, problems = values_and_problems(f"headers: {{{key}: a}}")
    assert problems == [f"a.yaml:1: headers.{key}: kubectl reads this key as {theirs}: put it in quotes"]


def test_a_key_that_kubectl_reads_alike_is_taken() -> None:
    assert values_and_problems('{1: a, true: b, "on": c, x-1: d}') == (
        {"1": "a", "true": "b", "on": "c", "x-1": "d"},
        [],
    )


def test_a_character_that_json_escapes_as_a_pair_is_one_character() -> None:
    assert values_and_problems(r'{"\ud83d\ude00": "a\ud83d\ude00"}') == ({"\U0001f600": "a\U0001f600"}, [])
    words = "holds half of a surrogate pair, which is no character"
    assert values_and_problems(r'a: "\ude00\ud83d"')[1] == [f"a.yaml:1: a: {words}"]


@pytest.mark.parametrize("text", ["a: !!int {}", "? {}\n: a", "a: !!str {}", "a: {}"])
def test_a_number_of_thousands_of_digits_is_no_number(text: str) -> None:
    documents, problems = read_documents("a.yaml", text.format("7" * 5000))
    assert len(documents) == 1
    assert all(len(str(problem)) < 6000 for problem in problems)


@pytest.mark.parametrize("part", ["data", "stringData"])
@pytest.mark.parametrize("value", ["012345", "!!int s3cr3t"])
def test_no_problem_tells_a_secrets_value(part: str, value: str) -> None:
    text = f"kind: List\nitems: [{{kind: Secret, {part}: {{password: {value}}}}}]"
    _, (problem,) = values_and_problems(text)
    assert problem.startswith(f"a.yaml:2: items[0].{part}.password: ")
    assert "12345" not in problem
    assert "s3cr3t" not in problem
