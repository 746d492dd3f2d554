"""A tenant whose predicates take for ever to read waits alone: the operator and its other tenants go on."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.operators import eventually
from support.tenants import Tenants

# Whatever the parser itself refuses, here is a text that it never ends with: in every process that has it.
NEVER_ENDS = """
from messagestore_jobs import predicate

compile_predicate = predicate.compile_predicate

def never_ends(text, columns):
    while "never ends" in text:
        pass
    return compile_predicate(text, columns)

predicate.compile_predicate = never_ends
"""
ANSWER_SECONDS = 1.0
"""A probe is answered by then; it is asked over a connection of its own, on a busy machine."""


@pytest.fixture(scope="module", autouse=True)
def _parser_without_end(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("parser")
    (folder / "sitecustomize.py").write_text(NEVER_ENDS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        yield


def test_only_the_resource_itself_pays_for_a_predicate_without_end(tenants: Tenants) -> None:
    eventually(lambda: tenants.operator.get("/readyz")[0] == 200, of=tenants.operator)
    for number in range(20):
        assert tenants.one.stream(f"hostile-{number}", filter={"where": "type = 'never ends'"}).accepted
    assert tenants.other.stream(
        "orders", filter={"where": "type = 'OrderPlaced'"}, trigger={"interval": "PT1H"}
    ).accepted

    answers = []
    ended = time.monotonic() + 60
    while not tenants.launched(tenants.other) and time.monotonic() < ended:
        began = time.monotonic()
        status, _ = tenants.operator.get("/healthz")
        answers.append((status, time.monotonic() - began))
        time.sleep(0.02)

    assert tenants.other.ready("orders", of=tenants.operator)["totals"]["stored"] == 2
    assert {status for status, _ in answers} == {200}
    assert max(seconds for _, seconds in answers) < ANSWER_SECONDS
    told = tenants.one.told("hostile-0", "PredicateRefused", of=tenants.operator)
    assert told.words == "spec.filter.where: takes more than 2 s to read: write it shorter, or with less nesting"
    assert not tenants.launched(tenants.one)


def test_a_resource_that_nobody_has_read_can_be_deleted(tenants: Tenants) -> None:
    name = "goes"
    document = {"table": {"uri": "s3a://lake/goes", "deletionPolicy": "Retain"}}
    assert tenants.one.stream(name, filter={"where": "type = 'never ends' OR type = 'goes'"}, **document).accepted
    assert tenants.one.request("DELETE", f"{tenants.one.path('MessageStream')}/{name}").accepted
    ended = time.monotonic() + 10
    while "spec" in tenants.one.read("MessageStream", name) and time.monotonic() < ended:
        time.sleep(0.1)
    assert "spec" not in tenants.one.read("MessageStream", name)
