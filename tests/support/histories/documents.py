"""The run documents of a history's steps."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Archive, Hold, Match, Rule, Scrub
from messagestore_core.contract.records import Envelope, FilesSource, Filter
from messagestore_core.contract.replay import ReplayTask, Selection
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Owner, Table
from support.histories.replay import ROUND
from support.histories.steps import HOUR, Purge, Replay, Spec
from support.purges import purge_document
from support.replays import files_replay, replay_document

JUDGES: dict[Spec, dict[str, Any]] = {
    "takes all": {},
    "asks for groups": {"envelope": Envelope(required=("correlationId",))},
    "sets b aside": {"filter": Filter(where="stream_name <> 'b'", unmatched="DeadLetter")},
    "drops b": {"filter": Filter(where="stream_name <> 'b'")},
    "stores expired": {"on_arrival_expired": "Store"},
}
"""The part of the task of each spec."""
MARKS = {"x-job": "{job}", "x-place": "{streamName}/{position}"}
"""The headers that each replay adds."""


def purge_of(
    table: Table, run: str, what: Purge, at: datetime, archive: Path, erase_within: timedelta = 10_000 * HOUR
) -> RunDocument:
    """A purge. All archive to one folder, so that each can continue another's; erased messages are never archived."""
    rule = Rule(
        name="rule",
        max_age=None if what.older is None else what.older * HOUR,
        statuses=(what.status,) if what.status else (),
        erase=what.erased is not None,
        match=Match(
            stream_names=(what.stream,) if what.stream else (),
            message_ids=() if what.erased is None else (f"m{what.erased}",),
        ),
    )
    holds = tuple(Hold(name=f"hold {n}", match=Match(message_ids=(f"m{n}",))) for n in what.held)
    task: dict[str, Any] = {
        "rules": (rule,),
        "holds": holds,
        "erase_within": erase_within,
        "archive": Archive(uri=f"file://{archive}"),
    }
    if what.scrubs:
        task |= {"action": "Scrub", "scrub": Scrub(payload_paths=("$.secret",), headers=("k",))}
    return purge_document(table, at, run=run, **task)


def replay_of(table: Table, job: str, asked: str, what: Replay, at: datetime, folder: Path) -> RunDocument:
    """A replay by a job; if the destination is a stream, into the one in this folder."""
    select = Selection(
        stream_names=(what.stream,) if what.stream else (),
        statuses=(what.status,) if what.status else (),
        limit=what.limit,
    )
    task: dict[str, Any] = {"job_id": job, "asked": asked, "select": select, "order": what.order, "mark_headers": MARKS}
    if what.to == "files":
        return files_replay(table, folder, **task).model_copy(update={"at": at})
    target = Table(uri=f"file://{folder}", owner=Owner(namespace="default", name=job))
    taken = IngestTask(source_id="own", source=FilesSource(uri="file:///none"), on_arrival_expired="Store")
    to = StreamDestination(table=target, ingest=taken)
    return replay_document(table, ReplayTask(**task, destination=to)).model_copy(update={"at": at})


def redrive_of(table: Table, job: str, ingest: IngestTask, at: datetime) -> RunDocument:
    """A redrive of all open dead letters into their own store."""
    to = StreamDestination(table=table, ingest=ingest)
    task = ReplayTask(job_id=job, origin="DeadLetters", destination=to)
    resource = Resource(kind="ReplayJob", namespace="default", name=job)
    return replay_document(table, task).model_copy(update={"at": at, "resource": resource})


def redelivery_of(table: Table, at: datetime, folder: Path) -> RunDocument:
    """The next run of the one job that sends messages due for a retry."""
    select = Selection(due_for_retry=True, limit=ROUND, held_back="Retrying")
    return files_replay(table, folder, job_id="again", rounds=True, select=select).model_copy(update={"at": at})
