"""Checks manifests before a local run changes anything."""

from __future__ import annotations

from messagestore_operator.local.kafka import kafka_problems
from messagestore_operator.local.secrets import key_problem
from messagestore_operator.manifests import LoadResult, Problem
from messagestore_operator.translate.folders import LOCAL, folders


def local_problems(result: LoadResult) -> list[Problem]:
    """All problems that prevent a run on this machine."""
    problems = list(result.unresolved)
    for item in result.loaded:
        resource = item.resource
        problems += item.unsupported()
        words = f"must be {LOCAL}… in a local run, which can't reach object storage"
        problems += [item.problem(one.path, words) for one in folders(resource) if not one.uri.startswith(LOCAL)]
        if (problem := key_problem(resource, result.secrets)) is not None:
            problems.append(item.problem(*problem))
        problems += [item.problem(*problem) for problem in kafka_problems(resource, result.secrets)]
    return problems
