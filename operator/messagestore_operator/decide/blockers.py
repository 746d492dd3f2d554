"""What blocks the runs of a resource, found without creating one.

Each kind has an ordered list of named blockers, at the end of this module: the first that applies is what the resource
says. docs/operator.md#phases shows which phase follows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from messagestore_core.contract.base import RunError
from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.api.status import BaseStatus
from messagestore_operator.decide.schedule import opens_at
from messagestore_operator.decide.snapshot import PolicySnapshot, ReplaySnapshot, Snapshot, StreamSnapshot, Uses
from messagestore_operator.status.conditions import TERMINAL, condition_of, generation
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.replay import has_ended
from messagestore_operator.status.runs import released
from messagestore_operator.status.words import clock_time, few
from messagestore_operator.tenancy.adoption import is_released
from messagestore_operator.tenancy.check import not_allowed
from messagestore_operator.tenancy.settings import USE_LABEL, Tenancy
from messagestore_operator.translate.folders import TABLE_URI, beyond_pods, overlaps
from messagestore_operator.translate.kafka import ingest_access, replay_access
from messagestore_operator.translate.refusal import NotSupportedError
from messagestore_operator.translate.secrets import SecretVariable, Use, scrub_keys
from messagestore_operator.translate.storage import StorageAccess, purge_access, table_access
from messagestore_operator.translate.unsupported import refusals

MOST_STREAMS = 100


@dataclass(frozen=True, order=True)
class Need:
    """A Secret, and a run's use of it."""

    secret: str
    use: Use
    certificate: bool = False

    def allowed_by(self, uses: frozenset[str]) -> bool:
        """Whether a Secret that allows these uses allows this one."""
        return self.use in uses or (self.certificate and Use.CA in uses)


def secrets_of(resource: Resource, streams: Iterable[MessageStream]) -> frozenset[Need]:
    """The Secrets that runs of the resource need; a snapshot says which of them exist.

    Args:
        streams: those of its namespace that it refers to and that exist.
    """
    existing = list(streams)
    if isinstance(resource, MessageStream):
        # A run that deletes the store needs no source.
        return _needs(partial(table_access, resource)) | _needs(partial(ingest_access, resource))
    if isinstance(resource, RetentionPolicy):
        keys = tuple(scrub_keys(resource))
        return frozenset[Need]().union(*(_needs(partial(purge_access, resource, one), keys) for one in existing))
    assert isinstance(resource, ReplayJob)
    named, to = {stream.metadata.name: stream for stream in existing}, resource.spec.target
    source, target = named.get(resource.spec.stream_ref.name), named.get(to.name) if to else None
    return _needs(partial(replay_access, resource, source, target)) if source else frozenset()


def _needs(access: Callable[[], StorageAccess], variables: Iterable[SecretVariable] = ()) -> frozenset[Need]:
    """The Secrets of one kind of run; none if it can't reach its folders, which says nothing about other runs."""
    try:
        return needed(access(), variables)
    except NotSupportedError:
        return frozenset()


def needed(access: StorageAccess, variables: Iterable[SecretVariable] = ()) -> frozenset[Need]:
    """The Secrets without which a run's pods don't start."""
    filled = {Need(one.secret, one.use) for one in (*access.variables, *variables) if not one.optional}
    mounted = {Need(one.secret, one.use, certificate=not one.confidential) for one in access.certificates}
    return frozenset(filled | mounted)


def unmet(wanted: Iterable[Need], secrets: Uses) -> list[Need]:
    """The needed Secrets that don't exist, or don't allow the use."""
    return sorted(need for need in wanted if not need.allowed_by(secrets.get(need.secret, frozenset())))


Named = MessageStream | RetentionPolicy | ReplayJob
AnySnapshot = TypeVar("AnySnapshot", bound=Snapshot)


# Blockers of a resource of any kind; it may be another one than the snapshot's.


def refused(resource: Named, snapshot: Snapshot) -> RunError | None:
    """Why no run can do what the resource asks for, in any cluster with these settings; None if one can."""
    return next((error for blocker in SPEC if (error := blocker(resource, snapshot)) is not None), None)


def invalid_spec(resource: Named, snapshot: Snapshot) -> RunError | None:
    """A value of the spec is refused."""
    problem = snapshot.spec_problems.get(resource.identity)
    return RunError(reason=Failure.INVALID_SPEC, message=problem) if problem else None


def not_supported(resource: Named, snapshot: Snapshot) -> RunError | None:
    """The resource asks for what this release can't do."""
    unsupported = (*refusals(resource), *beyond_pods(resource))
    return RunError(reason=Reason.NOT_SUPPORTED, message=few(unsupported)) if unsupported else None


def beyond_tenancy(resource: Named, snapshot: Snapshot) -> RunError | None:
    """The resource asks for more than the operator's settings allow."""
    beyond = not_allowed(resource, snapshot.defaults.tenancy)
    return RunError(reason=Reason.NOT_ALLOWED, message=few(beyond)) if beyond else None


def table_released(resource: Named, snapshot: Snapshot) -> RunError | None:
    """The stream's table has another owner now."""
    return released(resource, snapshot.defaults.tenancy.adoptions) if isinstance(resource, MessageStream) else None


def predicate_refused(resource: Named, snapshot: Snapshot) -> RunError | None:
    """A predicate is refused, and no run has frozen a selection by it."""
    problem = snapshot.predicate_problems.get(resource.identity)
    if problem is None or _has_selected(resource):
        return None
    return RunError(reason=Failure.PREDICATE_REFUSED, message=problem)


def _has_selected(resource: Named) -> bool:
    """Whether a replay goes on with a selection that it froze, maybe by a predicate that an earlier release took."""
    if not isinstance(resource, ReplayJob) or resource.spec.trigger is not None or resource.status is None:
        return False
    return resource.status.selection is not None


# Blockers of the snapshot's own resource.


def spec_refused(snapshot: Snapshot) -> RunError | None:
    """The resource's own spec is refused."""
    return refused(snapshot.resource, snapshot)


def folders_overlap(snapshot: Snapshot) -> RunError | None:
    """The error if a folder of the resource overlaps with one of another resource that has it already, and must not.

    Only resources of its namespace count: nobody can block a stream of another one by naming its folder.
    """
    resource, tenancy = snapshot.resource, snapshot.defaults.tenancy
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

    One that the operator has accepted as it is comes before one that is new, has changed or is refused, that before one
    that was refused for its folders, and otherwise the older one.
    """
    status: BaseStatus | None = resource.status
    ready, rank = condition_of(status, "Ready"), 1
    if ready is not None and ready.reason in TERMINAL:
        rank = 2 if ready.reason == Reason.FOLDERS_OVERLAP else 1
    elif status is not None and status.observed_generation == generation(resource):
        rank = 0
    return rank, resource.metadata.creation_timestamp or "", resource.identity


def spark_operator_missing(snapshot: Snapshot) -> RunError | None:
    """The error if the cluster lacks the kind that runs are created as."""
    if snapshot.missing_kind is None:
        return None
    words = f"{snapshot.missing_kind} is not installed in this cluster: no run can start before the Spark operator is"
    return RunError(reason=Reason.SPARK_OPERATOR_MISSING, message=words)


def too_many_streams(snapshot: PolicySnapshot) -> RunError | None:
    """The policy selects more streams than one policy can have."""
    selected = len(snapshot.streams)
    if selected <= MOST_STREAMS:
        return None
    words = (
        f"{selected} MessageStreams have the labels of spec.streamSelector; a policy can select at most {MOST_STREAMS}"
    )
    return RunError(reason=Reason.TOO_MANY_STREAMS, message=words)


def stream_missing(snapshot: ReplaySnapshot) -> RunError | None:
    """A stream that the replay names doesn't exist."""
    to, source = snapshot.job.spec.target, snapshot.job.spec.stream_ref.name
    missing = [] if snapshot.stream else [source]
    missing += [to.name] if to and snapshot.target is None and to.name not in missing else []
    words = f"there is no MessageStream {' and no MessageStream '.join(missing)}"
    return RunError(reason=Reason.STREAM_MISSING, message=words) if missing else None


def target_refused(snapshot: ReplaySnapshot) -> RunError | None:
    """The spec of the stream that the replay sends to is refused."""
    return refused(snapshot.target, snapshot) if snapshot.target is not None else None


def store_barred(snapshot: ReplaySnapshot) -> RunError | None:
    """No run may use the store that is replayed."""
    assert snapshot.stream is not None
    return barred(snapshot.stream, snapshot)


def ingest_storage(snapshot: StreamSnapshot) -> RunError | None:
    """The stream's runs could not reach their storage."""
    return unreachable(snapshot, lambda: ingest_access(snapshot.stream))


def replay_storage(snapshot: ReplaySnapshot) -> RunError | None:
    """The replay's runs could not reach their storage."""
    stream = snapshot.stream
    assert stream is not None
    return unreachable(snapshot, lambda: replay_access(snapshot.job, stream, snapshot.target))


def blocker_of_purge(stream: MessageStream, snapshot: PolicySnapshot) -> RunError | None:
    """What blocks a policy's run on one of its streams: the stream's store, or the storage."""
    policy = snapshot.policy
    return barred(stream, snapshot) or unreachable(snapshot, lambda: purge_access(policy, stream), scrub_keys(policy))


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
        return RunError(reason=Failure.INVALID_SPEC, message=f"{problem} {which}")
    if (local := next((one for one in beyond_pods(stream) if one.path == TABLE_URI), None)) is not None:
        return RunError(reason=Reason.NOT_SUPPORTED, message=f"{local} {which}")
    if beyond := not_allowed(stream, tenancy):
        return RunError(reason=Reason.NOT_ALLOWED, message=f"{few(beyond)} {which}")
    return released(stream, tenancy.adoptions)


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
    streams: tuple[MessageStream | None, ...] = ()
    if isinstance(snapshot, PolicySnapshot):
        streams = snapshot.streams
    elif isinstance(snapshot, ReplaySnapshot):
        streams = (snapshot.stream, snapshot.target)
    named = [stream for stream in streams if stream is not None]
    return bool(unmet(secrets_of(snapshot.resource, named), snapshot.secrets))


def _not_for_that(need: Need, lacking: Iterable[Need], secrets: Uses) -> str:
    """The label names all uses, those that it allows already too: with one of them alone the others would end."""
    wanted = {Use.CA if one.certificate else one.use for one in lacking if one.secret == need.secret}
    uses = ".".join(sorted(({*secrets[need.secret]} - {""}) | {str(use) for use in wanted}))
    return f"Secret {need.secret} may not be used for {need.use}: its owner must label it {USE_LABEL}={uses}"


def first(blockers: Iterable[Callable[[AnySnapshot], RunError | None]], snapshot: AnySnapshot) -> RunError | None:
    """What the first of the blockers says that applies; None if none does."""
    return next((error for blocker in blockers if (error := blocker(snapshot)) is not None), None)


SPEC: tuple[Callable[[Named, Snapshot], RunError | None], ...] = (
    invalid_spec,
    not_supported,
    beyond_tenancy,
    table_released,
    predicate_refused,
)
"""For a resource of any kind: why no run can do what it asks for, in any cluster with these settings."""

STREAM: tuple[Callable[[StreamSnapshot], RunError | None], ...] = (
    spec_refused,
    folders_overlap,
    spark_operator_missing,
    ingest_storage,
)
POLICY: tuple[Callable[[PolicySnapshot], RunError | None], ...] = (
    spec_refused,
    folders_overlap,
    too_many_streams,
    spark_operator_missing,
)
"""For a policy as a whole; each of its streams has ``blocker_of_purge``."""

REPLAY: tuple[Callable[[ReplaySnapshot], RunError | None], ...] = (
    spark_operator_missing,
    folders_overlap,
    stream_missing,
    target_refused,
    store_barred,
    replay_storage,
)
"""For a replay; one whose own spec is refused has failed for good, as nobody can change it."""

REDELIVERY: tuple[Callable[[ReplaySnapshot], RunError | None], ...] = (spec_refused, *REPLAY)
"""For a replay with a trigger, which goes on once it is corrected."""
