"""One purge run, from the rules to the audit."""

from dataclasses import dataclass
from typing import Any

from messagestore_core.clock import shifted
from messagestore_core.contract.purge import Preview, Purged, PurgeOutcome, PurgeTask
from messagestore_core.contract.stores import TableState
from messagestore_core.store.audit import note
from messagestore_core.store.dead_letters import DeadLettersBefore
from messagestore_core.store.delta_log import next_global_position, table_state
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.folder import exists
from messagestore_core.store.purges import Plan, find_plans
from messagestore_jobs.context import PurgeRun, Run
from messagestore_jobs.frozen.purges import forget, sweep, with_rows_of_days, write_plan, write_rows
from messagestore_jobs.purge.dead_letters import count_dead_letters
from messagestore_jobs.purge.erase import owed
from messagestore_jobs.purge.execute_plan import Checked, PurgeResult, execute_plan, recheck
from messagestore_jobs.purge.selection import PurgeSelection, Summary, holds_digest, preview_id, selected, spec_digest

_SUMMED = ("purged", "archived", "scrubbed", "erased", "dead_letters")


def run_purge(run: Run) -> PurgeOutcome:
    """Preview what the rules select and, with mode Enforce, remove or scrub it.

    For Enforce the caller has opened the folder and holds the right to write; a dry run reads the store as it is. The
    run first continues purges of any policy that broke off; its report includes what they removed. The bytes of what it
    erased are removed by another run, as replays that are under way must stop first.
    """
    context = run.with_task(PurgeTask)
    if context.task.mode == "DryRun":
        return _outcome(context, _only_preview(context)) if exists(context.store) else _of_no_store(context)
    dead_letters = DeadLettersBefore(context.store)
    sweep(context)
    version = context.store.table("messages").version()
    unfinished = [plan for plan in find_plans(context.store) if not plan.waiting]
    for plan in unfinished:
        _refuse_other_archive(context, plan)
    results = [execute_plan(context, recheck(context, with_rows_of_days(context, plan))) for plan in unfinished]
    own = next((plan.preview for plan in unfinished if plan.run == context.run), None)
    if own is not None:
        decided = _Decided(own)
    else:
        decided = _decide(context)
        if decided.checked is not None:
            results.append(execute_plan(context, decided.checked))
    purged = _purged(context, results, decided, version)
    return _outcome(context, decided.preview, purged, decided.waiting, count_reasons=dead_letters.changed())


def _refuse_other_archive(context: PurgeRun, plan: Plan) -> None:
    """Refuse a plan with another archive than this run's: only the run document says where messages are written."""
    to, own = plan.task.archive, context.task.archive
    if to is not None and (own is None or to.uri != own.uri):
        raise RunFailedError(
            "PurgeUnfinished",
            f"a purge by {plan.resource.namespace}/{plan.resource.name} was cut short and archives to {to.uri[:200]}, "
            "not where this run does: let that policy run, or set its archive back; if nobody knows it, remove "
            f"{context.store.path(plan.folder)}",
        )


@dataclass(frozen=True)
class _Decided:
    """The preview, and the plan to carry out now, if any."""

    preview: Preview
    checked: Checked | None = None
    waiting: bool = False


def _only_preview(context: PurgeRun) -> Preview:
    context.between_commits()
    with selected(context) as (_, summary):
        _note(context, "Preview", summary.preview)
        return summary.preview


def _note(context: PurgeRun, action: str, preview: Preview, **fields: Any) -> None:
    """Note in the audit what happened to a preview."""
    detail = {"preview": preview.id, "asOf": preview.as_of.isoformat()}
    counts = {"selected": preview.messages, "held": preview.held}
    note(context.store, context.document, action, detail, counts=counts, bytes=preview.bytes, **fields)


def _note_approval(context: PurgeRun, preview: Preview) -> None:
    _note(context, "Approve", preview, requested_by=context.task.approved_by, once=True)


def _of_no_store(context: PurgeRun) -> PurgeOutcome:
    preview = Preview(id=preview_id(context, "", 0, []), table_version=0, as_of=context.as_of, messages=0, bytes=0)
    return PurgeOutcome(preview=preview, table=TableState(version=0, messages=0, dead_letters=0, bytes=0))


def _decide(context: PurgeRun) -> _Decided:
    """Approve or keep the preview that waits, or make a new one."""
    for plan in _waiting(context):
        if context.task.approval_required and plan.spec == spec_digest(context.task):
            if context.task.approves(plan.preview.id):
                _note_approval(context, plan.preview)
                checked = recheck(context, plan.model_copy(update=_dead_letters(context)))
                return _Decided(plan.preview, checked)
            if plan.holds == holds_digest(context.task):
                return _Decided(plan.preview, waiting=True)
        forget(context, plan)
    context.between_commits()
    with selected(context) as (selection, summary):
        context.between_commits()
        return _freeze(context, selection, summary)


def _waiting(context: PurgeRun) -> list[Plan]:
    """The previews of this resource that wait for approval."""
    mine = context.document.resource
    return [plan for plan in find_plans(context.store) if plan.waiting and plan.resource.identity == mine.identity]


def _freeze(context: PurgeRun, selection: PurgeSelection, summary: Summary) -> _Decided:
    preview, task = summary.preview, context.task
    plan = Plan(
        preview=preview,
        run=context.run,
        resource=context.document.resource,
        task=task,
        spec=spec_digest(task),
        holds=holds_digest(task),
        waiting=task.approval_required and preview.messages > 0 and not task.approves(preview.id),
        decided_at=context.as_of,
        messages=preview.messages,
        bytes=preview.bytes,
        erased=summary.erased,
        version_before=preview.table_version,
        days=selection.days,
        last_position=next_global_position(context.store) - 1 if selection.days else None,
    ).model_copy(update=_dead_letters(context))
    if not plan.messages and not plan.dead_letters:
        return _Decided(preview)
    context.progress.step("freeze", plan.messages)
    going = selection.going()
    if going is None:
        plan = plan.model_copy(update={"rows": 0})
    else:
        write_rows(context, plan, going)
    write_plan(context, plan)
    if plan.waiting:
        _note(context, "Preview", preview)
    elif task.approval_required and preview.messages:
        _note_approval(context, preview)
    return _Decided(preview, None if plan.waiting else Checked(plan, summary.by_day), plan.waiting)


def _dead_letters(context: PurgeRun) -> dict[str, object]:
    """The dead letters that a plan deletes; previews don't count them, so they are counted when it is carried out."""
    if context.task.dead_letters_max_age is None:
        return {}
    before = shifted(context.as_of, -context.task.dead_letters_max_age)
    return {"dead_letters_before": before, "dead_letters": count_dead_letters(context.store, before)}


def _purged(context: PurgeRun, results: list[PurgeResult], decided: _Decided, version: int) -> Purged | None:
    """What the run did, over all plans that it carried out; None if its only plan waits."""
    if decided.waiting and not results:
        return None
    return Purged(
        run=context.run,
        at=context.as_of,
        table_version_before=version,
        table_version_after=context.store.table("messages").version(),
        **{name: sum(getattr(one, name) for one in results) for name in _SUMMED},
        held=decided.preview.held + sum(one.held for one in results),
        tombstones_version=context.store.table("tombstones").version(),
        # Also of a run that ended before it could report.
        erase_due_by=min((one.due_by for one in owed(context.store)), default=None),
    )


def _outcome(
    context: PurgeRun,
    preview: Preview,
    purge: Purged | None = None,
    waiting: bool = False,
    *,
    count_reasons: bool = False,
) -> PurgeOutcome:
    table = table_state(context.store, count_reasons=count_reasons)
    return PurgeOutcome(preview=preview, purge=purge, awaiting_approval=waiting, table=table)
