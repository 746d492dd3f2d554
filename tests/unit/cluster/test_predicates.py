"""Another process reads predicates: a text that it never finishes delays only its own resource."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from messagestore_core import predicate as language
from messagestore_operator.api import MessageStream
from messagestore_operator.cluster.predicates import Predicates
from messagestore_operator.kube.objects import ResourceKey
from messagestore_operator.tenancy import predicates
from messagestore_operator.tenancy.predicate_process import PredicateProcess
from messagestore_operator.tenancy.predicates import TOO_LARGE, TOO_LONG, Predicate, Refused, predicate_problems
from support.launches import stream
from support.waiting import scaled

# The real process, with a parser that does what the text asks for.
HOSTILE_WORKER = """
import os
from messagestore_core import predicate
from messagestore_operator.tenancy import predicate_worker

compile_predicate = predicate.compile_predicate

def hostile(text, columns):
    while "never ends" in text:
        try:
            while True:
                pass
        except BaseException:
            pass
    while "is slow" in text:
        pass
    if "is large" in text:
        bytearray(2**30)
    if "crashes" in text:
        os.abort()
    return compile_predicate(text, columns)

predicate.compile_predicate = hostile
predicate_worker.main()
"""


def reader(answer_seconds: float = 10) -> PredicateProcess:
    return PredicateProcess([sys.executable, "-c", HOSTILE_WORKER], answer_seconds)


def read(*texts: str, answer_seconds: float = 10) -> list[Refused | None]:
    """The answers of one reader to texts, one after the other."""

    async def ask() -> list[Refused | None]:
        one = reader(answer_seconds)
        try:
            return [await one.first_refused([("MESSAGE_COLUMNS", text)]) for text in texts]
        finally:
            await one.end()

    return asyncio.run(ask())


def test_the_first_refused_predicate_is_reported_with_its_problem() -> None:
    async def ask() -> Refused | None:
        one = PredicateProcess()
        try:
            return await one.first_refused([("MESSAGE_COLUMNS", "position > 1"), ("FILTER_COLUMNS", "position > 1")])
        finally:
            await one.end()

    found = asyncio.run(ask())
    assert (found[0], "position is not known yet" in found[1]) == (1, True)


def test_a_text_that_takes_too_long_is_refused_and_the_next_is_read() -> None:
    assert read("type = 'is slow'", "type = 'a'") == [(0, TOO_LONG), None]


def test_a_reader_that_is_stuck_is_killed_and_the_next_text_is_read() -> None:
    assert read("type = 'never ends'", "type = 'a'", answer_seconds=1) == [(0, TOO_LONG), None]


def test_a_text_that_takes_too_much_memory_is_refused_and_the_next_is_read() -> None:
    assert read("type = 'is large'", "type = 'a'") == [(0, TOO_LARGE), None]


def test_a_text_that_ends_its_reader_twice_is_refused_and_the_next_is_read() -> None:
    crashed, fine = read("type = 'crashes'", "type = 'a'")
    assert (crashed[1].startswith("can't be read"), fine) == (True, None)


@pytest.mark.parametrize("answer", ['[1, "no such predicate"]', '[-1, "no"]', '["x", "no"]', "[0]", "5", '{"0": 0}'])
def test_an_answer_that_fits_no_predicate_refuses_the_text(answer: str) -> None:
    worker = f"import sys\nprint('ready', flush=True)\nfor _ in sys.stdin: print({answer!r}, flush=True)"

    async def ask() -> Refused | None:
        one = PredicateProcess([sys.executable, "-c", worker])
        try:
            return await one.first_refused([("MESSAGE_COLUMNS", "type = 'a'")])
        finally:
            await one.end()

    index, words = asyncio.run(ask())
    assert (index, words.startswith("can't be read")) == (0, True)


def test_where_a_manifest_is_validated_the_time_is_bounded_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(text: str, columns: Any) -> None:
        while True:
            pass

    monkeypatch.setattr(language, "compile_predicate", never)
    monkeypatch.setattr(predicates, "SECONDS", 0.2)
    document = {"kind": "MessageStream", "spec": {"filter": {"where": "type = 'a'"}}}
    assert list(predicate_problems(document)) == [(("spec", "filter", "where"), TOO_LONG)]


def tenants_stream(namespace: str, name: str, where: str | None, generation: int = 1) -> MessageStream:
    spec = {"filter": {"where": where}} if where else {}
    document = stream(name, uid=f"{namespace}-{name}", namespace=namespace, **spec).to_dict()
    document["metadata"]["generation"] = generation
    return MessageStream.model_validate(document)


class Served:
    """Predicates at work, and the resources that they reported."""

    def __init__(self, one: Any) -> None:
        self.told: list[ResourceKey] = []
        self.predicates = Predicates(one, self.told.extend)

    def ask(self, resource: MessageStream) -> bool:
        return self.predicates.knows(resource, resource.identity)

    async def wait_for(self, resource: MessageStream) -> str | None:
        while resource.identity not in self.told:
            await asyncio.sleep(0.01)
        assert self.ask(resource)
        return self.predicates.problem(resource)


@asynccontextmanager
async def served(one: Any) -> AsyncIterator[Served]:
    found = Served(one)
    work = asyncio.create_task(found.predicates.work())
    try:
        yield found
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def _lateness(worst: list[float]) -> None:
    while True:
        before = time.monotonic()
        await asyncio.sleep(0.01)
        worst[0] = max(worst[0], time.monotonic() - before - 0.01)


def test_hostile_texts_neither_hold_up_the_loop_nor_another_tenant() -> None:
    async def scene() -> tuple[str | None, str | None, int, float]:
        worst = [0.0]
        async with served(reader(answer_seconds=answer_seconds)) as found:
            watch = asyncio.create_task(_lateness(worst))
            hostile = [tenants_stream("hostile", f"s{number}", "type = 'never ends'") for number in range(20)]
            for one in hostile:
                assert not found.ask(one)
            honest = tenants_stream("honest", "orders", "type = 'a'")
            assert not found.ask(honest)
            problem = await found.wait_for(honest)
            watch.cancel()
            return problem, await found.wait_for(hostile[0]), len(found.told), worst[0]

    answer_seconds = scaled(2)
    problem, refused, told, worst = asyncio.run(scene())
    assert (problem, refused) == (None, f"spec.filter.where: {TOO_LONG}")
    # It waited for one turn, and perhaps for the one that had begun before.
    assert told <= 3
    # The event loop never waited for an answer.
    assert worst < answer_seconds / 2


class Plain:
    """Refuses only "no", and records the texts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def first_refused(self, predicates: Sequence[Predicate]) -> Refused | None:
        (_, text) = predicates[0]
        self.asked.append(text)
        return (0, "is refused") if text == "no" else None

    async def end(self) -> None:
        return


def test_namespaces_take_turns() -> None:
    async def scene() -> list[str]:
        plain = Plain()
        async with served(plain) as found:
            streams = [tenants_stream("a", f"s{number}", f"a{number}") for number in range(3)]
            streams.append(tenants_stream("b", "s", "b"))
            for one in streams:
                found.ask(one)
            await found.wait_for(streams[2])
        return plain.asked

    assert asyncio.run(scene()) == ["a0", "b", "a1", "a2"]


def test_a_spec_is_read_once_and_again_when_it_has_changed() -> None:
    first, second = (tenants_stream("a", "s", text, number) for number, text in enumerate(("no", "yes"), start=1))

    async def scene() -> tuple[list[str | None], list[str]]:
        plain = Plain()
        async with served(plain) as found:
            assert not found.ask(first)
            problems = [await found.wait_for(first)]
            assert found.ask(first)
            found.told.clear()
            assert not found.ask(second)
            problems += [found.predicates.problem(second), await found.wait_for(second)]
        return problems, plain.asked

    assert asyncio.run(scene()) == (["spec.filter.where: is refused", None, None], ["no", "yes"])


def test_a_resource_without_a_predicate_needs_no_reader() -> None:
    async def scene() -> list[str]:
        plain = Plain()
        async with served(plain) as found:
            assert found.ask(tenants_stream("a", "s", None))
        return plain.asked

    assert asyncio.run(scene()) == []


def test_an_idle_reader_has_no_task_that_would_end_with_the_watches() -> None:
    async def tasks() -> int:
        resource = tenants_stream("billing", "orders", "type = 'a'")
        async with served(PredicateProcess()) as found:
            found.ask(resource)
            await found.wait_for(resource)
            await asyncio.sleep(0)
            return len(asyncio.all_tasks())

    # This one and the worker's.
    assert asyncio.run(tasks()) == 2
