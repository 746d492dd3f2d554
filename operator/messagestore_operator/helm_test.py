"""What ``helm test`` runs in a pod: resources one after the other, each until its status has what is expected.

Before the first and after the last it deletes them all, with their data. After a failure they stay, to be looked at.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from messagestore_operator.kube.client import ApiError, KubeClient, connect
from messagestore_operator.kube.connection import configuration
from messagestore_operator.kube.objects import ApiObject, Kind, at, name_of, namespace_of
from messagestore_operator.names import GROUP, NAMES, VERSION

Say = Callable[[str], object]
_PAUSE_SECONDS = 1.0


class NotAsExpectedError(Exception):
    """The message says which resource has not done what it should have."""


@dataclass(frozen=True)
class Step:
    """Resources, and what the status of the last one must have.

    Attributes:
        done: the status field that says that its work is done.
        counts: fields of the status, each as a path such as ``totals.stored``, with their values.
    """

    resources: Sequence[ApiObject]
    done: str
    counts: Mapping[str, int]


def progress(document: ApiObject, step: Step) -> tuple[bool, str]:
    """Whether a resource is done, and what its status says.

    Raises:
        NotAsExpectedError: it is stalled, or done with other counts.
    """
    status: Mapping[str, Any] = document.get("status") or {}
    called = f"{document['kind']} {name_of(document)}"
    conditions = {one["type"]: one for one in status.get("conditions") or ()}
    said = {name: str(one.get("message", "")) for name, one in conditions.items()}
    true = {name for name, one in conditions.items() if one["status"] == "True"}
    current = status.get("observedGeneration") == at(document, "metadata", "generation")
    if current and "Stalled" in true:
        raise NotAsExpectedError(f"{called} is stalled: {said['Stalled']}")
    if not (current and "Ready" in true and status.get(step.done)):
        return False, f"{called}: {said.get('Ready') or 'no status yet'}"
    counted = {path: at(status, *path.split(".")) for path in step.counts}
    if counted != step.counts:
        raise NotAsExpectedError(f"{called} is done, with {_listed(counted)} instead of {_listed(step.counts)}")
    return True, f"{called} is done{': ' if counted else ''}{_listed(counted)}"


def _listed(counts: Mapping[str, object]) -> str:
    return ", ".join(f"{path} {count}" for path, count in counts.items())


async def run(client: KubeClient, steps: Sequence[Step], say: Say) -> None:
    """Perform the steps.

    Raises:
        NotAsExpectedError: a resource is stalled, or has other counts.
        ApiError: the API server refuses a resource.
    """
    made = [resource for step in steps for resource in step.resources]
    await _remove(client, made, say)
    for step in steps:
        for resource in step.resources:
            await client.create(_kind(resource).path(namespace_of(resource)), resource)
        await _until_done(client, step, say)
    await _remove(client, made, say)


async def _until_done(client: KubeClient, step: Step, say: Say) -> None:
    done, before = False, ""
    while not done:
        done, said = progress(await client.get(_path(step.resources[-1])), step)
        if said != before:
            say(said)
        before = said
        await asyncio.sleep(0 if done else _PAUSE_SECONDS)


async def _remove(client: KubeClient, made: Sequence[ApiObject], say: Say) -> None:
    """Delete what was made, the last first, as streams have to outlive what is about them."""
    for resource in reversed(made):
        if await client.delete(_path(resource)):
            say(f"{resource['kind']} {name_of(resource)} is being deleted")
        while await client.find(_path(resource)) is not None:
            await asyncio.sleep(_PAUSE_SECONDS)


def _path(resource: ApiObject) -> str:
    return _kind(resource).path(namespace_of(resource), name_of(resource))


def _kind(resource: ApiObject) -> Kind:
    return Kind(GROUP, VERSION, resource["kind"], NAMES[resource["kind"]].plural)


async def _main(steps: Sequence[Step], say: Say) -> None:
    async with connect(await configuration()) as client:
        await run(client, steps, say)


def main(arguments: Sequence[str]) -> int:
    """Perform the steps of the only argument, a JSON array; returns the exit code."""

    def say(line: str) -> None:
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    (steps,) = arguments
    try:
        asyncio.run(_main([Step(**step) for step in json.loads(steps)], say))
    except (NotAsExpectedError, ApiError) as error:
        say(f"failed: {error}\nThe resources stay until the next test, for you to look at.")
        return 1
    say("A stream, a purge and a replay have done what they should, and are removed.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
