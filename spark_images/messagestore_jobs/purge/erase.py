"""Erasure: remove the bytes of erased or scrubbed messages from storage by the time they are due.

Deleted rows stay in files of earlier table versions, and some of their values in the log. So an erasure leaves only the
newest version of each table, and removes claim checks, staged replays and waiting purges that only earlier versions
need. Then it checks everything in the folder: see ``remains``.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import functions as F

from messagestore_core.clock import in_utc, shifted
from messagestore_core.contract.purge import EraseOutcome
from messagestore_core.store.audit import AuditEntry, add_audit, read_audit
from messagestore_core.store.dead_letters import DeadLettersBefore
from messagestore_core.store.delta_log import table_state
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import read_hidden_heads
from messagestore_core.store.objects import is_local
from messagestore_core.store.pending_updates import forget_pending
from messagestore_core.store.purges import find_plans
from messagestore_core.store.tombstones import Erased, erased_positions, open_erased
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.gone import forget_sequences, of_earlier_releases
from messagestore_jobs.frozen.purges import (
    forget,
    forget_notes,
    frozen_rows,
    sweep,
    with_rows_of_days,
    write_plan,
    write_rows,
    written_rows,
)
from messagestore_jobs.frozen.staged import take_out_copies
from messagestore_jobs.index.manifest import unnamed
from messagestore_jobs.index.store_index import kept_index
from messagestore_jobs.lifecycle.waiting import waiting_for_erased
from messagestore_jobs.purge.claim_checks import delete_orphan_claim_checks
from messagestore_jobs.purge.dead_letters import forget_late_copies
from messagestore_jobs.purge.hidden import hidden_streams, hide_in_audit, without_erased
from messagestore_jobs.purge.remains import forget_past, refuse_remains
from messagestore_jobs.rows.messages import positions_in

ERASE = "Erase"
DUE_BY = "eraseDueBy"
LONGEST_LEAD = timedelta(hours=6)
"""An erasure may run for a tenth of its time, and at most so long, before its deadline."""


@dataclass(frozen=True)
class Owed:
    """A purge or scrub whose erasure is still to be done."""

    run: str
    preview: str
    due_by: datetime
    erased: int
    begins: datetime
    """From when on an erasure may run, as it is to be done by then."""


def owed(store: Store) -> list[Owed]:
    """All purges and scrubs whose bytes may still be in storage, by the audit."""
    rows = [(row, _detail(row["rules"])) for row in read_audit(store)]
    paid = {(row["refers_to"], detail.get("preview")) for row, detail in rows if row["action"] == ERASE}
    return [
        _owed(row, detail)
        for row, detail in rows
        if detail.get(DUE_BY) and (row["run"], detail.get("preview")) not in paid
    ]


def _owed(row: dict[str, Any], detail: dict[str, Any]) -> Owed:
    due_by = in_utc(detail[DUE_BY])
    lead = min(max(due_by - in_utc(row["at"]), timedelta(0)) / 10, LONGEST_LEAD)
    return Owed(row["run"], detail["preview"], due_by, row["counts"].get("erased", 0), shifted(due_by, -lead))


def _detail(rules: str | None) -> dict[str, Any]:
    """The detail of a row of the audit; empty if no run has written the row."""
    try:
        detail = json.loads(rules or "{}")
        in_utc(detail.get(DUE_BY) or "2000-01-01")
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}
    return detail if isinstance(detail.get("preview"), str) else {}


def run_erase(run: Run) -> EraseOutcome:
    """If any erasure is due, do all of them, without a purge. The caller has opened the folder, and may write.

    Scrubs count no erased messages.

    Raises:
        RunFailedError: something erased is still there, or something that might be.
        RunStoppedError: the run was told to stop; the erasure stays due.
    """
    dead_letters, due = DeadLettersBefore(run.store), owed(run.store)
    is_due = any(one.begins <= run.as_of for one in due)
    if is_due:
        _erase(run, due)
    left = owed(run.store) if is_due else due
    return EraseOutcome(
        erased=sum(one.erased for one in due) if is_due else 0,
        erased_at=run.as_of if is_due else None,
        not_erased=not_reached(run.store) if is_due else (),
        erase_due_by=min((one.due_by for one in left), default=None),
        table=table_state(run.store, count_reasons=dead_letters.changed()),
    )


def _erase(context: Run, due: Sequence[Owed]) -> None:
    """Erase, check that the bytes are gone, and note it in the audit."""
    context.progress.step("erase", sum(one.erased for one in due))
    before = context.store.table("messages").version()
    erased = open_erased(context.store)
    context.between_commits()
    going = _clean_plans(context, erased)
    context.between_commits()
    if erased.any():
        take_out_copies(context.store, erased)
        forget_late_copies(context.store, erased)
        forget_pending(context.store, waiting_for_erased(context.spark, context.store, erased))
        hide_in_audit(context, erased)
    context.between_commits()
    index = kept_index(context.spark, context.store)
    tables = context.store.existing_tables()
    left = {name: forget_past(context.store, name, context.note() if name == "messages" else None) for name in tables}
    if index is not None:
        index.go_on_behind_a_cut()
    context.between_commits()
    for name in sorted(unnamed(context.store)):
        with context.store.step("erase-index"):
            context.store.objects().delete(name)
    forget_sequences(context.spark, context.store)
    claim_checks = delete_orphan_claim_checks(context)
    context.between_commits()
    context.progress.step("look for what is left")
    refuse_remains(context.spark, context.store, erased, left, claim_checks, going)
    for one in due:
        _audit(context, one, before)


def not_reached(store: Store) -> tuple[str, ...]:
    """Where copies may be that no erasure reaches, for people."""
    sent = "files and topics that were read, their names, sealed archives, and what replays have sent"
    elsewhere = (sent, *of_earlier_releases(store))
    kept = None if is_local(store.uri) else store.storage.versions_kept(store.uri)
    if is_local(store.uri) or kept == "":
        return elsewhere
    bucket = store.uri.split("/")[2]
    if kept is None:
        return (*elsewhere, f"earlier versions of objects, if bucket {bucket} keeps any: it does not tell this run")
    return (
        *elsewhere,
        f"earlier versions of objects: the versioning of bucket {bucket} is {kept}. Give it a lifecycle rule that "
        f"expires noncurrent versions below {store.uri} (NoncurrentVersionExpiration), or delete those versions",
    )


def _clean_plans(context: Run, erased: Erased) -> npt.NDArray[np.int64]:
    """Make unfinished purges independent of earlier table versions, and take out of them what names erased messages.

    Previews that have erased messages, or name some, are dropped. The policy of a dropped preview makes a new one.
    Return the global positions of messages that unfinished purges are still to erase.
    """
    sweep(context)
    heads, going = read_hidden_heads(context.store), [np.array([], np.int64)]
    for unfinished in find_plans(context.store):
        plan = with_rows_of_days(context, unfinished)
        task, rows = without_erased(plan.task, erased, heads), frozen_rows(context, plan)
        streams = hidden_streams(rows.select("stream_name").distinct().toArrow(), heads) if heads.by_key else []
        changes = bool(streams) or task != plan.task
        if plan.waiting and (changes or np.isin(positions_in(rows), erased_positions(context.store)).any()):
            forget(context, plan)
            continue
        if plan.days or changes:
            plan = plan.model_copy(update={"rows": plan.rows + 1, "days": (), "task": task})
            # The heads of these streams were raised before their names were hidden.
            named = F.when(~F.col("stream_name").isin(streams), F.col("stream_name"))
            write_rows(context, plan, rows.withColumn("stream_name", named))
            write_plan(context, plan)
        forget_notes(context, plan)
        if plan.erased and not plan.waiting:
            going.append(positions_in(written_rows(context, plan).where("erase")))
    return np.concatenate(going)


def _audit(context: Run, one: Owed, before: int) -> None:
    add_audit(
        context.store,
        AuditEntry(
            at=context.as_of,
            action=ERASE,
            run=context.run,
            resource=context.document.resource,
            detail={"preview": one.preview},
            version_before=before,
            version_after=context.store.table("messages").version(),
            counts={"erased": one.erased},
            refers_to=one.run,
        ),
    )
