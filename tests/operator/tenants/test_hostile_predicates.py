"""A tenant's predicate gets no run if it is more than a predicate; one whose check never ends delays only itself."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.operators import eventually
from support.tenants import Tenants
from support.waiting import scaled

# A parser that never finishes with one text, in every process that loads it.
NEVER_ENDS = """
from messagestore_core import predicate

compile_predicate = predicate.compile_predicate

def never_ends(text, columns):
    while "never ends" in text:
        pass
    return compile_predicate(text, columns)

predicate.compile_predicate = never_ends
"""
ANSWER_SECONDS = 1.0
"""A probe must be answered within this time; it has its own connection, on a busy machine."""


@pytest.fixture(scope="module", autouse=True)
def _parser_without_end(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("parser")
    (folder / "sitecustomize.py").write_text(NEVER_ENDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        yield


@pytest.mark.parametrize(
    ("name", "where", "words"),
    [
        ("variable", "${env:MESSAGESTORE_STORAGE_1_SECRET_KEY} LIKE 's3c%'", "write the value itself"),
        ("setting", "${spark.dynamicAllocation.executorIdleTimeout}", "write the value itself"),
        ("shell", "TRANSFORM (type) USING 'sh'", "is no function taken here"),
        ("java", "java_method('java.lang.System', 'exit', 1) = 1", "calls any Java method"),
        ("files", "type IN (SELECT * FROM json.`s3a://lake/others`)", "is a subquery"),
        ("nest", f"type = {'lower(' * 70}type{')' * 70}", "is nested too deeply"),
        ("regular-expression", "type RLIKE '((a{30}){30}){30}'", "write LIKE with % and _"),
    ],
)
def test_a_text_that_is_more_than_a_predicate_is_refused_on_the_resource(
    tenants: Tenants, name: str, where: str, words: str
) -> None:
    assert tenants.other.stream(name, filter={"where": where}).accepted
    told = tenants.other.told(name, "PredicateRefused", of=tenants.operator)
    assert told.words.startswith("spec.filter.where: ")
    assert words in told.words
    assert not [run for run in tenants.launched(tenants.other) if run.startswith(name)]


def _of_policy(where: str) -> dict[str, Any]:
    return {"rules": [{"name": "some", "match": {"where": where}}]}


@pytest.mark.parametrize(
    ("kind", "field", "spec"),
    [
        ("MessageStream", "spec.holds.0.match.where", lambda where: {"holds": _of_policy(where)["rules"]}),
        ("RetentionPolicy", "spec.rules.0.match.where", _of_policy),
        ("ReplayJob", "spec.select.where", lambda where: {"select": {"where": where}}),
    ],
)
def test_each_kind_refuses_such_a_predicate_in_its_field(
    tenants: Tenants, kind: str, field: str, spec: Callable[[str], dict[str, Any]]
) -> None:
    name = f"of-{kind}".lower()
    assert tenants.other.make(kind, name, spec("reflect('java.lang.Runtime', 'getRuntime') = 'a'")).accepted
    assert tenants.other.told(name, "PredicateRefused", kind, of=tenants.operator).words.startswith(f"{field}: ")


def test_a_predicate_that_never_ends_delays_only_its_own_resource(tenants: Tenants) -> None:
    eventually(lambda: tenants.operator.get("/readyz")[0] == 200, of=tenants.operator)
    for number in range(20):
        assert tenants.one.stream(f"hostile-{number}", filter={"where": "type = 'never ends'"}).accepted
    assert tenants.other.stream(
        "orders", filter={"where": "type = 'OrderPlaced'"}, trigger={"interval": "PT1H"}
    ).accepted

    answers = []
    started = time.monotonic()
    while not tenants.launched(tenants.other) and time.monotonic() - started < scaled(60):
        began = time.monotonic()
        status, _ = tenants.operator.get("/healthz")
        answers.append((status, time.monotonic() - began))
        time.sleep(0.02)

    assert tenants.other.ready("orders", of=tenants.operator)["totals"]["stored"] == 2
    assert {status for status, _ in answers} == {200}
    assert max(seconds for _, seconds in answers) < scaled(ANSWER_SECONDS)
    told = tenants.one.told("hostile-0", "PredicateRefused", of=tenants.operator)
    assert told.words == "spec.filter.where: takes more than 2 s to read: write it shorter, or with less nesting"
    assert not tenants.launched(tenants.one)


def test_a_resource_whose_predicate_was_never_read_can_be_deleted(tenants: Tenants) -> None:
    name = "goes"
    document = {"table": {"uri": "s3a://lake/goes", "deletionPolicy": "Retain"}}
    assert tenants.one.stream(name, filter={"where": "type = 'never ends' OR type = 'goes'"}, **document).accepted
    assert tenants.one.request("DELETE", f"{tenants.one.path('MessageStream')}/{name}").accepted
    eventually(lambda: "spec" not in tenants.one.read("MessageStream", name), seconds=10, of=tenants.operator)
