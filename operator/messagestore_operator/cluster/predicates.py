"""Checks the predicates of resources in another process, so that no predicate can block this one.

Namespaces take turns: a slow predicate delays its own namespace, and others by at most one predicate.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from messagestore_operator.api import Resource
from messagestore_operator.kube.objects import ResourceKey
from messagestore_operator.tenancy.predicate_process import PredicateProcess
from messagestore_operator.tenancy.predicates import Predicate, predicates_of

_log = logging.getLogger(__name__)
_IDLE_SECONDS = 60.0
_RETRY_SECONDS = 5.0
_Version = tuple[str | None, int | None]


@dataclass
class _Question:
    """A resource whose predicates are still to be checked, and the resources that wait for it."""

    resource: Resource
    askers: set[ResourceKey] = field(default_factory=set)


class Predicates:
    """Checks and remembers the predicates of each resource.

    Args:
        reader: parses predicates.
        notify: receives the keys of resources that can be reconciled now.
    """

    def __init__(self, reader: PredicateProcess, notify: Callable[[Iterable[ResourceKey]], None]) -> None:
        self._reader = reader
        self._notify = notify
        self._known: dict[ResourceKey, tuple[_Version, str | None]] = {}
        self._questions: dict[str, dict[ResourceKey, _Question]] = {}
        """By namespace, in the order of their turns."""
        self._requested = asyncio.Event()

    def knows(self, resource: Resource, asker: ResourceKey) -> bool:
        """Whether the result is known; if not, the predicates are checked, and then ``notify`` gets the asker."""
        key = resource.identity
        if (known := self._known.get(key)) is not None and known[0] == _version(resource):
            return True
        if not _predicates(resource):
            self._known[key] = (_version(resource), None)
            return True
        question = self._questions.setdefault(resource.metadata.namespace, {}).setdefault(key, _Question(resource))
        question.resource = resource
        question.askers.add(asker)
        self._requested.set()
        return False

    def problem(self, resource: Resource) -> str | None:
        """The path of the refused predicate, and why; None if none is known."""
        version, problem = self._known.get(resource.identity, (None, None))
        return problem if version == _version(resource) else None

    def forget(self, key: ResourceKey) -> None:
        """Forget a resource that was deleted."""
        self._known.pop(key, None)

    async def work(self) -> None:
        """Check waiting resources, for ever."""
        try:
            while True:
                await self._wait()
                question = self._next()
                try:
                    self._known[question.resource.identity] = await self._read(question.resource)
                except OSError as error:
                    _log.warning("predicates can't be read: %s", error)
                    await asyncio.sleep(_RETRY_SECONDS)
                self._notify(question.askers)
        finally:
            await self._reader.end()

    async def _wait(self) -> None:
        """Wait for work; an idle reader is ended to free its memory."""
        if not self._questions:
            self._requested.clear()
            try:
                # Without a task of its own: kopf ends all that were made while it watched.
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._requested.wait()
            except TimeoutError:
                await self._reader.end()
                await self._requested.wait()

    def _next(self) -> _Question:
        namespace, questions = next(iter(self._questions.items()))
        del self._questions[namespace]
        question = questions.pop(next(iter(questions)))
        if questions:
            self._questions[namespace] = questions
        return question

    async def _read(self, resource: Resource) -> tuple[_Version, str | None]:
        predicates = _predicates(resource)
        first_refused = await self._reader.first_refused([predicate for _, predicate in predicates])
        if first_refused is None:
            return _version(resource), None
        index, words = first_refused
        return _version(resource), f"{'.'.join(map(str, predicates[index][0]))}: {words}"


def _predicates(resource: Resource) -> list[tuple[tuple[str | int, ...], Predicate]]:
    return list(predicates_of(resource.to_dict()))


def _version(resource: Resource) -> _Version:
    """A value that changes with the spec only."""
    return resource.metadata.uid, resource.metadata.generation
