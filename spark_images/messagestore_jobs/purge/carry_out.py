"""Carrying out a frozen plan. Each step may be repeated, and only their order keeps the store whole."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from messagestore_jobs.purge.archive import archive
from messagestore_jobs.purge.claims import delete_claim_checks
from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.dead_letters import delete_dead_letters, forget_copies
from messagestore_jobs.purge.erase import DUE_BY
from messagestore_jobs.purge.hidden import hidden
from messagestore_jobs.purge.plan import Plan, forget, frozen_rows
from messagestore_jobs.purge.recheck import Checked
from messagestore_jobs.purge.remove import delete, keep_heads
from messagestore_jobs.purge.scrub import scrub
from messagestore_jobs.store.audit import Done, add_audit
from messagestore_jobs.store.delta_log import open_table, table_state
from messagestore_jobs.store.messages import read_messages, within
from messagestore_jobs.store.pending_updates import forget_pending
from messagestore_jobs.store.tombstones import add_tombstones, tombstone_key


@dataclass(frozen=True)
class Carried:
    """What came of one plan."""

    purged: int
    scrubbed: int
    archived: int
    erased: int
    held: int
    dead_letters: int
    erase_due_by: datetime | None


def carry_out(context: Context, checked: Checked) -> Carried:
    """Archive, keep the heads, remember what is erased, remove, and write the audit; then the plan is done."""
    plan = checked.plan
    archived = archive(context, plan)
    deletes = plan.task.action == "Delete"
    if plan.messages:
        _remember_erased(context, plan)
        if deletes:
            keep_heads(context, plan)
            delete(context, plan, checked.by_day)
            if plan.erased:
                delete_claim_checks(context, frozen_rows(context, plan).where("erase"))
        else:
            scrub(context, plan)
    if plan.dead_letters_before is not None:
        delete_dead_letters(context.uri, plan.dead_letters_before)
    changes = plan.messages and not deletes
    carried = Carried(
        purged=plan.messages if deletes else 0,
        scrubbed=0 if deletes else plan.messages,
        archived=archived,
        erased=plan.erased,
        held=checked.held,
        dead_letters=plan.dead_letters,
        erase_due_by=plan.decided_at + plan.task.erase_within if plan.erased or changes else None,
    )
    _audit(context, plan, carried)
    forget(context, plan)
    return carried


def _remember_erased(context: Context, plan: Plan) -> None:
    if not plan.erased:
        return
    rows = frozen_rows(context, plan).where("erase")
    messages = within(read_messages(context.spark, context.uri), rows).select("message_id", "global_position")
    erased = messages.join(rows.select("global_position"), "global_position", "left_semi").toArrow()
    message_ids = erased["message_id"].to_pylist()
    if message_ids:
        places = zip(message_ids, erased["global_position"].to_pylist(), strict=True)
        add_tombstones(context.uri, places, plan.decided_at, plan.run)
        forget_copies(context, message_ids)
        forget_pending(context.uri, message_ids)


def _audit(context: Context, plan: Plan, carried: Carried) -> None:
    task = plan.task
    detail: dict[str, Any] = {"preview": plan.preview.id, "asOf": plan.preview.as_of.isoformat()}
    detail |= task.model_dump(mode="json", by_alias=True, include={"rules", "holds", "action", "scrub", "archive"})
    if plan.erased:
        detail = hidden(detail, tombstone_key(context.uri) or b"")
    if carried.erase_due_by is not None:
        detail[DUE_BY] = carried.erase_due_by.isoformat()
    left = table_state(context.uri).messages
    done = Done(
        at=plan.decided_at,
        action="Purge" if task.action == "Delete" else "Scrub",
        run=plan.run,
        resource=plan.resource,
        detail=detail,
        version_before=plan.version_before,
        version_after=open_table(context.uri, "messages").version(),
        counts={
            "purged": carried.purged,
            "scrubbed": carried.scrubbed,
            "archived": carried.archived,
            "erased": carried.erased,
            "deadLetters": carried.dead_letters,
            "messagesBefore": left + carried.purged,
            "messagesAfter": left,
        },
        bytes=plan.bytes,
    )
    context.progress.step("audit")
    add_audit(context.uri, done)
