"""Checks manifests before a local run changes anything."""

from __future__ import annotations

from collections.abc import Iterator

from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.local.kafka import kafka_problems
from messagestore_operator.local.secrets import key_problem
from messagestore_operator.manifests import LoadResult, Problem
from messagestore_operator.tenancy.adoption import is_released
from messagestore_operator.translate.folders import LOCAL, TABLE_URI, folders


def local_problems(result: LoadResult) -> list[Problem]:
    """All problems that prevent a run on this machine."""
    problems = list(result.unresolved)
    streams = [one for one in result.resources if isinstance(one, MessageStream) and not is_released(one)]
    for item in result.loaded:
        resource = item.resource
        problems += item.unsupported()
        for folder in folders(resource):
            words = _place_problems(resource, folder.path, folder.uri, streams)
            problems += [item.problem(folder.path, message) for message in words]
        if (found := key_problem(resource, result.secrets)) is not None:
            problems.append(item.problem(*found))
        problems += [item.problem(*found) for found in kafka_problems(resource, result.secrets)]
    return problems


def _place_problems(
    resource: Resource, path: tuple[str | int, ...], uri: str, streams: list[MessageStream]
) -> Iterator[str]:
    if not uri.startswith(LOCAL):
        yield f"must be {LOCAL}… in a local run, which can't reach object storage"
    for stream in streams:
        # A released table shares the folder of its new owner.
        own_table = path == TABLE_URI and (stream is resource or resource not in streams)
        if not own_table and _is_below(uri, stream.spec.table.uri):
            yield f"is in the table folder of MessageStream {stream.metadata.name}, which must contain nothing else"


def _is_below(uri: str, folder: str) -> bool:
    return f"{uri.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
