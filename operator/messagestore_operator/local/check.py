"""What must hold before a local run touches anything."""

from __future__ import annotations

from collections.abc import Iterator

from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.local.kafka import kafka_problems
from messagestore_operator.local.secrets import key_problem
from messagestore_operator.manifests import LoadResult, Problem
from messagestore_operator.translate import refusals
from messagestore_operator.translate.folders import LOCAL, folders


def local_problems(result: LoadResult) -> list[Problem]:
    """All that keeps the resources from being carried out on this machine."""
    problems = list(result.unresolved)
    streams = [resource for resource in result.resources if isinstance(resource, MessageStream)]
    for item in result.loaded:
        resource = item.resource
        problems += [item.problem(refusal.path, refusal.message) for refusal in refusals(resource)]
        for path, uri in folders(resource):
            problems += [item.problem(path, message) for message in _place_problems(resource, path, uri, streams)]
        if (found := key_problem(resource, result.secrets)) is not None:
            problems.append(item.problem(*found))
        problems += [item.problem(*found) for found in kafka_problems(resource, result.secrets)]
    return problems


def _place_problems(
    resource: Resource, path: tuple[str | int, ...], uri: str, streams: list[MessageStream]
) -> Iterator[str]:
    if not uri.startswith(LOCAL):
        yield f"must be {LOCAL}… in a local run, which has no way to object storage"
    for stream in streams:
        own_table = stream is resource and path == ("spec", "table", "uri")
        if not own_table and _is_below(uri, stream.spec.table.uri):
            yield f"lies in the table folder of MessageStream {stream.metadata.name}, which holds nothing else"


def _is_below(uri: str, folder: str) -> bool:
    return f"{uri.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
