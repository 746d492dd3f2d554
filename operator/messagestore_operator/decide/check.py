"""What keeps a resource's runs from being made, known without making one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from messagestore_jobs.contract.run_report import RunError
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy
from messagestore_operator.decide.needs import needed
from messagestore_operator.decide.snapshot import Snapshot
from messagestore_operator.manifests.predicates import predicate_problems
from messagestore_operator.reasons import Reason
from messagestore_operator.translate import NotSupportedError, SecretVariable, StorageAccess, refusals
from messagestore_operator.translate.folders import TABLE_URI, beyond_pods

_KNOWN_PREDICATES = 4096


def refused(resource: MessageStream | RetentionPolicy | ReplayJob) -> RunError | None:
    """Why no run of the resource can do what it asks, whatever else there is."""
    if found := (*refusals(resource), *beyond_pods(resource)):
        return RunError(reason=Reason.NOT_SUPPORTED, message="; ".join(map(str, found)))
    if problem := _predicate_problem(resource):
        return RunError(reason=Reason.PREDICATE_REFUSED, message=problem)
    return None


def local_table(stream: MessageStream) -> RunError | None:
    """Why no run in a pod, whosever it is, can work on the stream's store: it is a folder of one machine."""
    refusal = next((one for one in beyond_pods(stream) if one.path == TABLE_URI), None)
    if refusal is None:
        return None
    words = f"{refusal} (MessageStream {stream.metadata.name})"
    return RunError(reason=Reason.NOT_SUPPORTED, message=words)


def unreachable(
    snapshot: Snapshot, access: Callable[[], StorageAccess], variables: Iterable[SecretVariable] = ()
) -> RunError | None:
    """Why a run could not reach its storage: that is refused, or a Secret is missing."""
    try:
        wanted = needed(access(), variables)
    except NotSupportedError as error:
        return RunError(reason=Reason.NOT_SUPPORTED, message=str(error))
    missing = sorted(wanted - snapshot.secrets) if snapshot.secrets is not None else []
    if not missing:
        return None
    which = f"Secret {missing[0]} doesn't" if len(missing) == 1 else f"Secrets {', '.join(missing)} don't"
    return RunError(reason=Reason.SECRET_MISSING, message=f"{which} exist in this namespace")


def _predicate_problem(resource: MessageStream | RetentionPolicy | ReplayJob) -> str | None:
    # Parsing one takes a hundred times as long as the rest of a decision, and specs seldom change.
    return _problem_of(resource.kind, resource.spec.model_dump_json(by_alias=True, exclude_none=True))


@lru_cache(maxsize=_KNOWN_PREDICATES)
def _problem_of(kind: str, spec: str) -> str | None:
    import json

    problems = predicate_problems({"kind": kind, "spec": json.loads(spec)})
    return next((f"{'.'.join(map(str, path))}: {words}" for path, words in problems), None)
