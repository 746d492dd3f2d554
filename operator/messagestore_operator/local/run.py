"""Runs the resources in order, and collects their status."""

from __future__ import annotations

import getpass
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from deltalake.exceptions import DeltaError

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestOutcome
from messagestore_core.contract.purge import EraseOutcome, PurgeOutcome
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Owner
from messagestore_core.progress import ProgressListener
from messagestore_core.store.delta_log import committed_batch, last_note, table_state
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.files import planned_batch
from messagestore_core.store.folder import parsed_marker
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import MARKER
from messagestore_core.store.objects import LARGEST_DOCUMENT, is_local, local_path
from messagestore_core.store.offsets import ReadOffsets
from messagestore_jobs.driver.execute import check_for_work, execute
from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.local.secrets import (
    certificate_files,
    connection_problems,
    credentials,
    environment,
    key_problems,
    keys,
    with_local_files,
)
from messagestore_operator.local.spark import LocalSpark, holds_little
from messagestore_operator.manifests.load import LoadResult
from messagestore_operator.manifests.problem import Problem
from messagestore_operator.status.conditions import condition_of
from messagestore_operator.status.facts import StoreFacts, StreamResult
from messagestore_operator.status.local_runs import policy_status, replay_status, stream_status
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import released
from messagestore_operator.status.words import received
from messagestore_operator.tenancy.adoption import former_owners
from messagestore_operator.translate.folders import LOCAL, folders
from messagestore_operator.translate.ingest import ingest_document
from messagestore_operator.translate.names import run_name, source_id
from messagestore_operator.translate.purge import erase_document, purge_document
from messagestore_operator.translate.replay import replay_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Console(Protocol):
    """A terminal or a log."""

    def say(self, text: str) -> None:
        """Print a line."""

    def progress(self, run: str) -> AbstractContextManager[ProgressListener]:
        """The progress of one run, while it lasts."""


def local_problems(result: LoadResult) -> list[Problem]:
    """All problems that prevent a run on this machine."""
    problems = list(result.unresolved)
    for item in result.loaded:
        resource = item.resource
        problems += item.unsupported()
        words = f"must be {LOCAL}… in a local run, which can't reach object storage"
        problems += [item.problem(one.path, words) for one in folders(resource) if not one.uri.startswith(LOCAL)]
        problems += [item.problem(*problem) for problem in key_problems(resource, result.secrets)]
        problems += [item.problem(*problem) for problem in connection_problems(resource, result.secrets)]
    return problems


def store_facts(stream: MessageStream) -> StoreFacts | None:
    """The facts of the stream's store; None if there is none or it can't be read."""
    owner = Owner(namespace=stream.metadata.namespace, name=stream.metadata.name)
    store = Store(stream.spec.table.uri, owner=owner)
    try:
        marker = store.objects().read(MARKER, LARGEST_DOCUMENT)
        if marker is None or parsed_marker(store, marker).owner != owner:
            return None
        note = last_note(store)
        state = table_state(store, note, count_reasons=True)
        return StoreFacts(state, note.totals, _last_batch_at(store, source_id(stream)))
    except (OSError, DeltaError, ValueError, RunFailedError):
        return None


def _last_batch_at(store: Store, source: str) -> datetime | None:
    number = committed_batch(store, source)
    batch = planned_batch(store, source, number) or ReadOffsets(store, source).planned(number)
    return batch.at if batch else None


Identity = tuple[str, str, str]


@dataclass(frozen=True)
class LocalResult:
    """A resource with its status, and whether it succeeded."""

    resource: Resource
    well: bool


@dataclass
class LocalRun:
    """One local run. ``at`` fixes the clock."""

    result: LoadResult
    spark: LocalSpark
    console: Console
    wait_seconds: float
    at: datetime | None = None
    short_id: Callable[[], str] = lambda: secrets.token_hex(3)
    reports: dict[Identity, RunReport] = field(default_factory=dict, init=False)
    errors: dict[Identity, RunError] = field(default_factory=dict, init=False)
    purges: dict[Identity, list[StreamResult]] = field(default_factory=dict, init=False)
    files: Mapping[str, str] = field(default_factory=dict, init=False)
    """Files of certificates, by their paths in a pod."""

    def now(self) -> datetime:
        """The clock."""
        return self.at or datetime.now(UTC)

    def run(self) -> list[LocalResult]:
        """Run all resources, in order."""
        with self.with_secrets():
            for resource in self.result.resources:
                self.run_one(resource)
                self._report(self._ended(resource))
            # Computed again, as a later resource may have changed the store of an earlier one.
            return [self._ended(resource) for resource in self.result.resources]

    @contextmanager
    def with_secrets(self) -> Iterator[None]:
        """Give runs the Secrets of the manifests while the block lasts."""
        given = self.result.resources, self.result.secrets
        with environment(keys(*given) | credentials(*given)), certificate_files(*given) as self.files:
            yield

    def run_one(self, resource: Resource) -> None:
        """Run one resource that is not suspended, and keep what came of it."""
        if resource.spec.suspend:
            return
        if isinstance(resource, MessageStream):
            self._run_stream(resource)
        elif isinstance(resource, RetentionPolicy):
            self.purges[resource.identity] = [self._purge(resource, stream) for stream in self._streams_of(resource)]
        elif isinstance(resource, ReplayJob):
            self._run_replay(resource)

    def _run_stream(self, stream: MessageStream) -> None:
        if (gone := released(stream)) is not None:
            self.errors[stream.identity] = gone
        else:
            name = run_name(stream, "ingest", self.short_id())
            document = ingest_document(stream, name, self.at, former_owners(stream, self._sharing(stream)))
            self.reports[stream.identity] = self._execute(document)

    def _purge(self, policy: RetentionPolicy, stream: MessageStream) -> StreamResult:
        name = stream.metadata.name
        if (error := self._in_the_way(stream)) is not None:
            return StreamResult(name, error=error)
        run = run_name(policy, "purge", self.short_id())
        report = self._execute(purge_document(policy, stream, run, self.at))
        return StreamResult(name, report, erasure=self._erase(policy, stream, report))

    def _erase(self, policy: RetentionPolicy, stream: MessageStream, purged: RunReport) -> RunReport | None:
        """Erase what is due after a purge, also after one that failed or only previewed; None if nothing was."""
        purge = purged.outcome.purge if isinstance(purged.outcome, PurgeOutcome) else None
        # Without what a purge did, only the store tells what is due.
        due = purge.erase_due_by if purge else self.now()
        if due is None or due > self.now():
            return None
        erasure = self._execute(erase_document(policy, stream, run_name(policy, "erase", self.short_id()), self.at))
        did = isinstance(erasure.outcome, EraseOutcome) and erasure.outcome.erased_at is not None
        return erasure if did or (erasure.error and not purged.error) else None

    def _run_replay(self, job: ReplayJob) -> None:
        stream = self._stream(job, job.spec.stream_ref.name)
        to = job.spec.target
        target = self._stream(job, to.name) if to else None
        for needed in (stream, target):
            if needed is not None and (error := self._in_the_way(needed)) is not None:
                self.errors[job.identity] = error
                return
        run = run_name(job, "replay", self.short_id())
        self.reports[job.identity] = self._execute(replay_document(job, stream, target, run, self.at))

    def _execute(self, document: RunDocument) -> RunReport:
        document = _by_user(with_local_files(document, self.files))
        idle_check = check_for_work(document, self.now)
        if idle_check.report is not None:
            return idle_check.report
        if not self.spark.started:
            self.console.say("starting Spark")
        # All resources of a command share one session.
        alone = len(self.result.resources) == 1
        session = self.spark.session(little=(alone and idle_check.little) or holds_little(self.result.resources))
        with self.console.progress(document.run) as progress:
            return self._carry_out(document, session, progress)

    def _carry_out(self, document: RunDocument, session: SparkSession, progress: ProgressListener) -> RunReport:
        return execute(document, lambda: session, progress, self.wait_seconds, self.now)

    def _in_the_way(self, stream: MessageStream) -> RunError | None:
        """Why a resource that depends on the stream is not run."""
        report = self.reports.get(stream.identity)
        error = self.errors.get(stream.identity) or (report.error if report else None)
        if error is None:
            return None
        message = f"not run, because MessageStream {stream.metadata.name} failed: {error.reason}"
        return RunError(reason=Reason.STREAM_FAILED, message=message)

    def _sharing(self, stream: MessageStream) -> Sequence[MessageStream]:
        uri = stream.spec.table.uri.rstrip("/")
        streams = [resource for resource in self.result.resources if isinstance(resource, MessageStream)]
        return [other for other in streams if other is not stream and other.spec.table.uri.rstrip("/") == uri]

    def _streams(self, like: Resource) -> Sequence[MessageStream]:
        streams = [resource for resource in self.result.resources if isinstance(resource, MessageStream)]
        return [stream for stream in streams if stream.metadata.namespace == like.metadata.namespace]

    def _stream(self, like: Resource, name: str) -> MessageStream:
        return next(stream for stream in self._streams(like) if stream.metadata.name == name)

    def _streams_of(self, policy: RetentionPolicy) -> list[MessageStream]:
        if policy.spec.stream_selector is None:
            return [self._stream(policy, ref.name) for ref in policy.spec.stream_refs]
        return [stream for stream in self._streams(policy) if policy.selects(stream.metadata.labels)]

    def _ended(self, resource: Resource) -> LocalResult:
        key, now = resource.identity, self.now()
        report, error = self.reports.get(key), self.errors.get(key)
        if isinstance(resource, MessageStream):
            status = stream_status(resource, now, report, store_facts(resource), error)
            well = error is None and (report is None or report.error is None)
            return LocalResult(resource.model_copy(update={"status": status}), well)
        if isinstance(resource, RetentionPolicy):
            results = self.purges.get(key, [])
            failed = any(result.failure for result in results)
            return LocalResult(
                resource.model_copy(update={"status": policy_status(resource, now, results)}), not failed
            )
        assert isinstance(resource, ReplayJob)
        replayed = replay_status(resource, now, report, error)
        well = error is None and (report is None or report.error is None) and not condition_of(replayed, "Degraded")
        return LocalResult(resource.model_copy(update={"status": replayed}), well)

    def _report(self, ended: LocalResult) -> None:
        kind, _, name = ended.resource.identity
        status = ended.resource.status
        ready = next(condition for condition in status.conditions if condition.type == "Ready")
        why = "" if ended.well else f"{ready.reason}: "
        report = self.reports.get(ended.resource.identity)
        if report is not None and isinstance(report.outcome, IngestOutcome):
            self.console.say(f"{report.run}: {received(report.outcome.counts)}")
            for folder in absent_sources(ended.resource):
                self.console.say(f"{report.run}: there is no folder {folder} yet, so nothing arrives there")
        self.console.say(f"{kind.lower()}/{name}: {status.phase}: {why}{ready.message}")


def absent_sources(resource: Resource) -> Iterator[str]:
    """Source folders that don't exist: their names may be misspelt."""
    for folder in folders(resource):
        path = local_path(folder.uri)
        if "source" in folder.path and is_local(folder.uri) and not Path(path).exists():
            yield path


def _by_user(document: RunDocument) -> RunDocument:
    """The document with the present user as its requester."""
    resource = document.resource.model_copy(update={"requested_by": f"user:{user()}"})
    return document.model_copy(update={"resource": resource})


def user() -> str:
    """The name of the user who runs this, or the number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # In a container a user may have no name.
        return str(os.getuid())
