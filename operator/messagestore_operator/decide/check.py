"""What blocks the runs of a resource, found without creating one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from messagestore_core.contract.run_report import RunError
from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.api.status import BaseStatus
from messagestore_operator.decide.needs import Need, Uses, needed, secrets_of, unmet
from messagestore_operator.decide.snapshot import PolicySnapshot, ReplaySnapshot, Snapshot, StreamSnapshot
from messagestore_operator.decide.windows import opens_at
from messagestore_operator.reasons import Reason
from messagestore_operator.status.conditions import condition_of, generation
from messagestore_operator.status.replay_view import has_ended
from messagestore_operator.status.times import clock_time
from messagestore_operator.status.words import few
from messagestore_operator.tenancy import Tenancy, not_allowed
from messagestore_operator.tenancy.adoption import is_released
from messagestore_operator.tenancy.secrets import USE_LABEL
from messagestore_operator.translate import NotSupportedError, SecretVariable, StorageAccess, refusals
from messagestore_operator.translate.folders import TABLE_URI, beyond_pods, overlaps
from messagestore_operator.translate.secrets import Use


def refused(resource: MessageStream | RetentionPolicy | ReplayJob, snapshot: Snapshot) -> RunError | None:
    """Why no run can do what the resource asks for, in any cluster with these settings; None if one can."""
    if problem := snapshot.spec_problems.get(resource.identity):
        return RunError(reason=Reason.INVALID_SPEC, message=problem)
    if unsupported := (*refusals(resource), *beyond_pods(resource)):
        return RunError(reason=Reason.NOT_SUPPORTED, message=few(unsupported))
    if beyond := not_allowed(resource, snapshot.defaults.tenancy):
        return RunError(reason=Reason.NOT_ALLOWED, message=few(beyond))
    if isinstance(resource, MessageStream) and (gone := released(resource, snapshot.defaults.tenancy)) is not None:
        return gone
    problem = snapshot.predicate_problems.get(resource.identity)
    if problem and not _has_selected(resource):
        return RunError(reason=Reason.PREDICATE_REFUSED, message=problem)
    return None


def _has_selected(resource: Resource) -> bool:
    """Whether a replay goes on with a selection that it froze, maybe by a predicate that an earlier release took."""
    if not isinstance(resource, ReplayJob) or resource.spec.trigger is not None or resource.status is None:
        return False
    return resource.status.selection is not None


def overlapping(resource: Resource, snapshot: Snapshot) -> RunError | None:
    """The error if a folder of the resource overlaps with one of another resource that has it already, and must not.

    Only resources of its namespace count: nobody can block a stream of another one by naming its folder.
    """
    tenancy = snapshot.defaults.tenancy
    before = [
        one for one in snapshot.overlapping if _uses_folders(one, tenancy) and _seniority(one) < _seniority(resource)
    ]
    problems = tuple(overlaps(resource, before))
    return RunError(reason=Reason.FOLDERS_OVERLAP, message=few(problems)) if problems else None


def _uses_folders(resource: Resource, tenancy: Tenancy) -> bool:
    """Whether a resource may still have runs."""
    if isinstance(resource, ReplayJob) and has_ended(resource):
        return False
    if isinstance(resource, MessageStream) and is_released(resource, tenancy.adoptions):
        return False
    return resource.metadata.deletion_timestamp is None


def _seniority(resource: Resource) -> tuple[int, str, tuple[str, str, str]]:
    """Of two resources the lesser one keeps its folders.

    One that the operator has accepted as it is comes before one that is new or has changed, that before one that was
    refused for its folders, and otherwise the older one.
    """
    status: BaseStatus | None = getattr(resource, "status", None)
    ready, rank = condition_of(status, "Ready"), 1
    if ready is not None and ready.reason == Reason.FOLDERS_OVERLAP:
        rank = 2
    elif status is not None and status.observed_generation == generation(resource):
        rank = 0
    return rank, resource.metadata.creation_timestamp or "", resource.identity


def uninstalled(snapshot: Snapshot) -> RunError | None:
    """The error if the cluster lacks the kind that runs are created as."""
    if snapshot.missing_kind is None:
        return None
    words = f"{snapshot.missing_kind} is not installed in this cluster: no run can start before the Spark operator is"
    return RunError(reason=Reason.SPARK_OPERATOR_MISSING, message=words)


@dataclass(frozen=True)
class HeldBack:
    """Why a valid run has to wait, and until when, if that is known."""

    error: RunError
    until: datetime | None = None


def held_back(snapshot: Snapshot) -> HeldBack | None:
    """Why a run other than an ingest may not start at this time."""
    if snapshot.paused is not None:
        return HeldBack(RunError(reason=Reason.PAUSED, message=snapshot.paused))
    opens = opens_at(snapshot.defaults.windows, snapshot.now)
    if opens is None:
        return None
    words = f"waiting for the window that opens at {clock_time(opens)} (runs.windows)"
    return HeldBack(RunError(reason=Reason.WAITING_FOR_WINDOW, message=words), opens)


def barred(stream: MessageStream, snapshot: Snapshot) -> RunError | None:
    """Why no run of any resource may use the stream's store: it is invalid, unreachable or not allowed."""
    tenancy, which = snapshot.defaults.tenancy, f"(MessageStream {stream.metadata.name})"
    if problem := snapshot.spec_problems.get(stream.identity):
        return RunError(reason=Reason.INVALID_SPEC, message=f"{problem} {which}")
    if (local := next((one for one in beyond_pods(stream) if one.path == TABLE_URI), None)) is not None:
        return RunError(reason=Reason.NOT_SUPPORTED, message=f"{local} {which}")
    if beyond := not_allowed(stream, tenancy):
        return RunError(reason=Reason.NOT_ALLOWED, message=f"{few(beyond)} {which}")
    return released(stream, tenancy)


def released(stream: MessageStream, tenancy: Tenancy) -> RunError | None:
    """The error if the stream's table was released to another owner."""
    if not is_released(stream, tenancy.adoptions):
        return None
    words = f"the table of MessageStream {stream.metadata.name} is released to another owner; no run uses it here"
    return RunError(reason=Reason.TABLE_RELEASED, message=words)


def unreachable(
    snapshot: Snapshot, access: Callable[[], StorageAccess], variables: Iterable[SecretVariable] = ()
) -> RunError | None:
    """Why a run could not reach its storage: a folder is refused, or a Secret is missing or not labelled for it."""
    try:
        wanted = needed(access(), variables)
    except NotSupportedError as error:
        return RunError(reason=Reason.NOT_SUPPORTED, message=str(error))
    if snapshot.secrets is None or not (lacking := unmet(wanted, snapshot.secrets)):
        return None
    if missing := sorted({need.secret for need in lacking} - snapshot.secrets.keys()):
        which = f"Secret {missing[0]} doesn't" if len(missing) == 1 else f"Secrets {few(missing, ', ')} don't"
        return RunError(reason=Reason.SECRET_MISSING, message=f"{which} exist in this namespace")
    return RunError(
        reason=Reason.NOT_ALLOWED, message=few([_not_for_that(need, lacking, snapshot.secrets) for need in lacking])
    )


def awaits_secrets(snapshot: Snapshot) -> bool:
    """Whether the resource's runs wait for a change of a Secret, which no watch shows."""
    if snapshot.secrets is None:
        return False
    return bool(unmet(secrets_of(*_subjects(snapshot)), snapshot.secrets))


def _subjects(snapshot: Snapshot) -> tuple[Resource, tuple[MessageStream, ...]]:
    if isinstance(snapshot, PolicySnapshot):
        return snapshot.policy, snapshot.streams
    if isinstance(snapshot, ReplaySnapshot):
        return snapshot.job, tuple(one for one in (snapshot.stream, snapshot.target) if one is not None)
    assert isinstance(snapshot, StreamSnapshot)
    return snapshot.stream, ()


def _not_for_that(need: Need, lacking: Iterable[Need], secrets: Uses) -> str:
    """The label names all uses, those that it allows already too: with one of them alone the others would end."""
    wanted = {Use.CA if one.certificate else one.use for one in lacking if one.secret == need.secret}
    uses = ".".join(sorted(({*secrets[need.secret]} - {""}) | {str(use) for use in wanted}))
    return f"Secret {need.secret} may not be used for {need.use}: its owner must label it {USE_LABEL}={uses}"
