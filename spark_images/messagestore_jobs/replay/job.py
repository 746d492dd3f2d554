"""The replay run: freeze the selection, send it chunk by chunk, and report what could not be sent.

Redelivery sends failed messages whose retry is due again, each attempt once. A round selects messages, sets them to
PROCESSING in one commit with the round's number, and only then sends them. If it breaks off before that commit, the
next run begins it again; after the commit, the next run sends it to its end. So no message is selected again before its
answer came, and none is sent without a new status.
"""

import json
from collections.abc import Iterator

from deltalake.exceptions import TableNotFoundError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.destinations import FilesDestination, KafkaDestination, SentAs, StreamDestination
from messagestore_core.contract.replay import ReplayOutcome, ReplayProgress, ReplayTask, RoutesDestination
from messagestore_core.store.audit import note, rows_of
from messagestore_core.store.delta_log import committed_batch, last_note, table_state
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import exists, store_id
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import REPLAYS
from messagestore_core.store.objects import join
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Frozen, request_digest_of
from messagestore_jobs.lifecycle.commit import merge_once
from messagestore_jobs.lifecycle.history import append_history
from messagestore_jobs.replay.begin import (
    REPLAY,
    begin,
    delivery_of,
    detail_of,
    note_replay,
    source_of,
    task_of,
    with_task,
)
from messagestore_jobs.replay.continuous import send_on
from messagestore_jobs.replay.control import ReplayControl, ReplayToEnd
from messagestore_jobs.replay.cursor import SubscriptionCursor
from messagestore_jobs.replay.freeze import freeze, nothing
from messagestore_jobs.replay.leaves import ErrorOf, leaves_of, name_of
from messagestore_jobs.replay.preflight import findings
from messagestore_jobs.replay.routes import in_words, refuse_all_failed, send_routes
from messagestore_jobs.replay.selection import check
from messagestore_jobs.replay.sending import Sending, refuse_unsent
from messagestore_jobs.replay.source import Source
from messagestore_jobs.replay.subscription import SubscriptionRun
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import bounds


def run_replay(run: Run, control: ReplayControl | None = None, error_of: ErrorOf = in_words) -> ReplayOutcome:
    """Send what is selected and not sent yet. The caller holds the right to write the table of a target stream.

    Args:
        error_of: the reason and the message of a failure, for one of several destinations.

    Raises:
        RunFailedError: the destination or the predicate is refused, the replay began with another task, or all else
            was sent and some messages are lost or broken; of several destinations, if that is so of all.
    """
    task = task_of(run)
    if task.mode == "DryRun":
        return _preview(run)
    controlled = control or ReplayToEnd(task.messages_per_second)
    routes = isinstance(task.destination, RoutesDestination)
    outcome = send_routes(run, controlled, error_of) if routes else _sent(run, controlled)
    if outcome.progress.replayed:
        # Only a replay into a stream changes dead letters.
        count_reasons = task.target is not None
        contents = {
            name: table_state(store, last_note(store), count_reasons=count_reasons)
            for name, store in _written_stores(run).items()
        }
        outcome = outcome.model_copy(update=contents)
    return refuse_all_failed(outcome) if routes else refuse_unsent(outcome, task)


def _sent(run: Run, control: ReplayControl) -> ReplayOutcome:
    subscription = task_of(run).subscription
    if subscription is not None and subscription.continuous:
        return send_on(run, control)
    if subscription is not None:
        return SubscriptionRun(run, control).send() if exists(run.store) else nothing()
    run = of_its_own(run)
    return _redeliver(run, control) if task_of(run).select.due_for_retry else _replay(run, control)


def _written_stores(run: Run) -> dict[str, HeldStore]:
    """The stores that the replay writes once it sends something, by the field of the outcome for their contents."""
    task = task_of(run)
    target = run.store_of(task.target.table) if task.target is not None else None
    marks = task.select.due_for_retry or (target is not None and task.origin == "DeadLetters")
    stores = {"table": run.store} if marks else {}
    if target is not None and target not in stores.values():
        stores["target_table"] = target
    return stores


def of_its_own(run: Run) -> Run:
    """The run with what is asked of which store.

    If a resource or a store was made again under its name, and so asks for something else, it is a replay of its own.
    """
    task = task_of(run)
    request_digest = request_digest_of(task, _store_id(run))
    this = with_task(run, {"request_digest": request_digest})
    begun = rounds_begun(run.store, task) if task.select.due_for_retry else 0
    if (
        task.request_digest is None
        or request_digest is None
        or not delivery_of(_round(this, begun or 1)).is_of_another()
    ):
        return this
    return with_task(this, {"job_id": f"{task.job_id}.{request_digest[:8]}"})


def _store_id(run: Run) -> str | None:
    try:
        return store_id(run.store)
    except TableNotFoundError:
        return None


def _replay(run: Run, control: ReplayControl) -> ReplayOutcome:
    delivery = delivery_of(run)
    ended = delivery.ended()
    if ended is None:
        source, frozen = begin(run, delivery)
        ended = Sending(source, frozen, delivery, run.progress, control).go_on()
    return note_replay(run, ended)


def _redeliver(run: Run, control: ReplayControl) -> ReplayOutcome:
    """End the round that has begun; then begin the next, if the task has rounds or none has begun."""
    task = task_of(run)
    begun = rounds_begun(run.store, task)
    if begun:
        left = _left_of_round(run, begun)
        if left is not None:
            # A killed run may have committed this round and not have come to that.
            _forget_round(run, begun - 1)
            outcome = _replay(left, control).model_copy(update=_numbered(run, begun))
            if not (task.rounds and outcome.complete) or outcome.progress.lost or outcome.progress.failed:
                return outcome
        elif not task.rounds:
            return delivery_of(run).ended() or nothing()
    this = _round(run, begun + 1)
    delivery = delivery_of(this)
    # An earlier run may have frozen a selection without the commit of its round, so it has sent nothing.
    delivery.state.remove()
    source, frozen = begin(this, delivery)
    if not frozen.splits and task.rounds:
        delivery.state.remove()
        return nothing().model_copy(update={"selection": frozen.selection, **_numbered(run, begun)})
    if frozen.splits:
        _note_attempts(run, source, frozen, begun + 1)
        _forget_round(run, begun)
    outcome = note_replay(this, Sending(source, frozen, delivery, run.progress, control).go_on())
    return outcome.model_copy(update=_numbered(run, begun + 1))


def _round(run: Run, number: int) -> Run:
    """One round, which is a replay with its own folder."""
    task = task_of(run)
    if not task.rounds:
        return run
    news: dict[str, object] = {"job_id": f"{task.job_id}-{number}"}
    if isinstance(task.to, FilesDestination):
        folder = join(task.to.uri, f"round-{number:08d}")
        news["destination"] = task.to.model_copy(update={"uri": folder})
    return with_task(run, news)


def _left_of_round(run: Run, number: int) -> Run | None:
    """A round that has not ended; None if it has, or the recipient removed its folder."""
    this = _round(run, number)
    delivery = delivery_of(this)
    ended = delivery.ended()
    if ended is not None:
        note_replay(this, ended)
    elif delivery.state.frozen(task_of(this), this.store.uri) is not None:
        return this
    return None


def _numbered(run: Run, number: int) -> dict[str, int]:
    return {"round": number, "redelivered": redelivered(run)} if task_of(run).rounds else {}


def _preview(run: Run) -> ReplayOutcome:
    """Count the selection, and keep nothing of it but a row in the audit."""
    check(task_of(run).select, task_of(run).origin)
    run.progress.step("select")
    if not exists(run.store):
        return nothing()
    source = source_of(run, None)
    frozen = freeze(source, run.run, "")
    counts = {"selected": frozen.selection.messages}
    note(run.store, run.document, "Preview", detail_of(run.document, task_of(run)), counts=counts)
    progress, to = ReplayProgress(withheld=source.withheld()), task_of(run).destination
    risks = findings(source, to, progress.withheld) if source.sends_records and isinstance(to, KafkaDestination) else ()
    return ReplayOutcome(selection=frozen.selection, progress=progress, complete=True, findings=risks)


def listings(run: Run, scratch: str) -> Iterator[tuple[str, DataFrame]]:
    """The rows that each destination would get, in the order in which they would be sent, with the destination's name.

    The name is empty where there is one destination. A replay that has ended sends nothing more. A subscription's
    cursor is opened for that, and so written: give a run of it a copy of the store. ``scratch`` is a folder's URI.

    Raises:
        RunFailedError: the predicate is refused.
    """
    run.progress.step("select")
    task = task_of(run)
    if not exists(run.store):
        return
    if task.subscription is None:
        rows = _once(of_its_own(run))
        yield from () if rows is None else [("", rows)]
        return
    for leaf in leaves_of(run) if isinstance(task.destination, RoutesDestination) else [run]:
        name = name_of(leaf)
        upcoming = SubscriptionCursor(_to_files(leaf, join(scratch, name or "only"))).upcoming()
        if upcoming is not None:
            yield name, _in_order(upcoming)


def _once(run: Run) -> DataFrame | None:
    task = task_of(run)
    check(task.select, task.origin)
    again = task.select.due_for_retry
    if rounds_begun(run.store, task) and not task.rounds if again else delivery_of(run).ended() is not None:
        return None
    return _in_order(run)


def _in_order(run: Run) -> DataFrame:
    source = source_of(run, None)
    frozen = freeze(source, run.run, "")
    first = frozen.splits[0].start if frozen.splits else None
    rows = source.rows().limit(0) if first is None else source.between(first, frozen.end)
    if source.task.skip_expired:
        rows = rows.where(F.coalesce(F.col("expires_at") > instant(run.as_of), F.lit(True)))
    return rows.orderBy(*source.order.columns)


def _to_files(leaf: Run, uri: str) -> Run:
    """The run with files as its destination, so that no broker or endpoint is asked; it selects the same."""
    task: ReplayTask = task_of(leaf)
    form: SentAs = getattr(task.to, "envelope", "Native")
    return with_task(leaf, {"destination": FilesDestination(uri=uri, envelope=form)})


def redelivered(run: Run) -> int:
    """How many messages all rounds of a replay sent."""
    task, resource = task_of(run), run.document.resource
    own = f"{resource.kind}/{resource.namespace}/{resource.name}"
    rows = [row for row in rows_of(run.store, REPLAY) if row["actor"] == own]
    return sum(row["counts"].get("replayed") or 0 for row in rows if _round_of(row["rules"], task.job_id))


def _round_of(rules: str, job_id: str) -> bool:
    try:
        return str(json.loads(rules)["job"]).rpartition("-")[0] == job_id
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def rounds_begun(store: Store, task: ReplayTask) -> int:
    """The number of the last committed round; 0 before the first."""
    return committed_batch(store, _app_id(task))


def _note_attempts(run: Run, source: Source, frozen: Frozen, number: int) -> None:
    """Set all selected messages of a round to PROCESSING, once; the run is that of the replay, not of the round."""
    messages = source.between(frozen.splits[0].start, frozen.end)
    rows = messages.select("global_position", "inserted_date")
    where = bounds(rows)
    assert where is not None
    changes = {
        "status": F.lit("PROCESSING"),
        "next_retry_at": F.lit(None).cast("timestamp"),
        "updated_at": instant(run.as_of),
    }
    note = last_note(run.store).model_copy(update={"run": run.run})
    step = (_app_id(task_of(run)), number)
    append_history(run.spark, run.store, messages, "PROCESSING", step, run.run, run.as_of)
    merge_once(run.spark, run.store, rows, where, changes, step, note)


def _forget_round(run: Run, number: int) -> None:
    """Remove the ended state of a round into a stream, if there is one, after the commit of a later round."""
    task = task_of(_round(run, number))
    if number and task.rounds and isinstance(task.to, StreamDestination):
        target = run.store_of(task.to.table)
        with target.step("replay-forgotten"):
            target.objects(REPLAYS, task.job_id).delete_folder("")


def _app_id(task: ReplayTask) -> str:
    """The transaction on ``messages`` whose version is the last committed round."""
    return f"redelivery:{task.job_id}"
