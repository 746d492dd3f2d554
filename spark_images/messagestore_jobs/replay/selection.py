"""Selections as conditions over the columns of ``messages`` or ``dead_letters``.

Also which failed messages are due for a retry, and which of those are held back by others of their group.
"""

from collections.abc import Callable
from datetime import datetime
from operator import ge, le, lt
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.purge import Match
from messagestore_core.contract.replay import Decider, Interval, ReplayTask, Routing, Selection, TimeWindow
from messagestore_core.envelope import READ
from messagestore_core.predicate import DEAD_LETTER_COLUMNS, MESSAGE_COLUMNS, SUBSCRIPTION_COLUMNS
from messagestore_core.predicate.spark import condition
from messagestore_jobs.frozen.orders import BY_FAILURE, BY_POSITION, BY_SEQUENCE, Order
from messagestore_jobs.replay.waiting import goes, is_complete_only, of_round
from messagestore_jobs.rows.matching import all_of, compiled, instant, matches, undecided
from messagestore_jobs.sequences import states

REFUSED = "_refused"
"""A column: whether a decider has left a message to this destination."""
_LASTING = frozenset(field.column for field in READ if field.lasting)
"""The columns that never change; all others may change while a replay runs."""


def order_of(task: ReplayTask) -> Order:
    """The order in which a replay is cut into chunks and sent."""
    if task.origin == "DeadLetters":
        return BY_FAILURE
    return BY_SEQUENCE if task.order == "Sequence" else BY_POSITION


def check(selection: Selection, origin: str) -> None:
    """Refuse a predicate that may not run.

    Raises:
        RunFailedError: it is refused; the message says which part and why.
    """
    if selection.where is not None:
        columns = DEAD_LETTER_COLUMNS if origin == "DeadLetters" else MESSAGE_COLUMNS
        compiled(selection.where, columns, "select.where")


def check_subscription(selection: Selection) -> None:
    """Refuse conditions of a subscription that may not run, or that change after a message was passed over.

    Raises:
        RunFailedError: one is refused.
    """
    if selection.where is not None:
        compiled(selection.where, SUBSCRIPTION_COLUMNS, "select.where")
    for where in _conditions(selection.routing):
        compiled(where, SUBSCRIPTION_COLUMNS, "destinations.where")


def lasts(selection: Selection) -> bool:
    """Whether the selection always matches the same messages, even if the lifecycle or scrubs change them."""
    if selection.statuses or selection.headers or selection.due_for_retry:
        return False
    if is_complete_only(selection):
        return False
    if selection.routing is not None and selection.routing.deciders:
        return False
    conditions = [*([selection.where] if selection.where else []), *_conditions(selection.routing)]
    return all(compiled(where).columns <= _LASTING for where in conditions)


def selected_messages(messages: DataFrame, selection: Selection, now: datetime) -> DataFrame:
    """The messages that match all selectors; the limit is applied later, in order."""
    if selection.waiting is not None:
        return of_round(messages.where(matches_anywhere(selection)), selection)
    rows = messages.where(matches_all(selection))
    if selection.due_for_retry:
        rows = due_for_retry(rows, messages, selection, now)
    if selection.sequences is not None and is_complete_only(selection):
        ids = selection.sequences.ids
        candidates = messages.where(F.col("sequence_id").isin(*ids)) if ids else messages
        rows = rows.join(states(candidates).where(goes(selection, now)), "sequence_id", "left_semi")
    return rows.select(*messages.columns)


def matches_all(selection: Selection) -> Column:
    """Whether a message matches all selectors that look at it alone; with deciders by column ``REFUSED`` too."""
    routed = _routed(selection.routing)
    if selection.routing is not None and selection.routing.deciders:
        return all_of([*_base(selection), all_of(routed) | F.col(REFUSED)])
    return all_of([*_base(selection), *routed])


def matches_anywhere(selection: Selection) -> Column:
    """Like ``matches_all``, of messages at any position."""
    return matches_all(selection.model_copy(update={"global_positions": None}))


def decided_by(messages: DataFrame, selection: Selection, decider: Decider) -> DataFrame:
    """The messages of which another destination decides whether it gets them."""
    return messages.where(all_of([*_base(selection), *_routed(Routing(where=decider.where))]))


def is_undecided(task: ReplayTask) -> Column:
    """Whether a message matches all selectors, and nothing says whether the destination, or another, gets it."""
    where = task.select.routing.where if task.select.routing else None
    if where is None or (task.subscription is not None and task.subscription.otherwise):
        return F.lit(False)
    return all_of([*_base(task.select), undecided(Match(where=where))])


def selected_dead_letters(dead_letters: DataFrame, selection: Selection) -> DataFrame:
    """The dead letters that match all selectors, without those that were redriven."""
    conditions = [F.col("redriven_at").isNull(), *_window("failed_at", selection.time_window)]
    if selection.reasons:
        conditions.append(F.col("reason").isin(*selection.reasons))
    if selection.where is not None:
        conditions.append(condition(compiled(selection.where, DEAD_LETTER_COLUMNS)))
    return dead_letters.where(all_of(conditions))


def due_for_retry(rows: DataFrame, messages: DataFrame, selection: Selection, now: datetime) -> DataFrame:
    """The ``rows``, selected or not, that have failed, are due and have not expired.

    With ``held_back`` only the first of each group is due: of all messages of a correlation id or a stream, the
    earliest that has failed or is tried again. Those that failed for good count only with ``Failed``.
    """
    lasts = F.col("expires_at").isNull() | (F.col("expires_at") > instant(now))
    due = rows.where((F.col("status") == "FAILED") & (F.col("next_retry_at") <= instant(now)) & lasts)
    if selection.held_back is None:
        return due
    group = selection.grouped_by
    first = (
        messages.where(_has_failed(selection.held_back) & F.col(group).isNotNull())
        .groupBy(group)
        .agg(F.min("global_position").alias("_first"))
    )
    grouped = due.join(first, group, "left").where("_first IS NULL OR _first = global_position")
    return grouped.select(*rows.columns)


def _base(selection: Selection) -> list[Column]:
    of_sequences = [F.col("sequence_id").isNotNull()] if is_complete_only(selection) else []
    return [matches(_match(selection)), *_within(selection), *of_sequences]


def _routed(routing: Routing | None) -> list[Column]:
    """Whether a message goes to one of several destinations."""
    if routing is None:
        return []
    own = [_is_true(routing.where)] if routing.where is not None else []
    return [*own, *(~_is_true(where) for where in routing.unless)]


def _is_true(where: str) -> Column:
    return F.coalesce(condition(compiled(where)), F.lit(False))


def _conditions(routing: Routing | None) -> list[str]:
    if routing is None:
        return []
    own = [routing.where, *(decider.where for decider in routing.deciders)]
    return [*filter(None, own), *routing.unless]


def _match(selection: Selection) -> Match:
    return Match(
        stream_names=selection.stream_names,
        categories=selection.categories,
        types=selection.types,
        statuses=selection.statuses,
        correlation_ids=selection.correlation_ids,
        sequence_ids=selection.sequences.ids if selection.sequences else (),
        message_ids=selection.message_ids,
        headers=selection.headers,
        where=selection.where,
    )


def _within(selection: Selection) -> list[Column]:
    return [
        *_window("time", selection.time_window),
        *_between("global_position", selection.global_positions, le, F.lit),
        *_between("position", selection.positions, le, F.lit),
    ]


def _window(column: str, window: TimeWindow | None) -> list[Column]:
    return _between(column, window, lt, instant)


def _between(
    column: str,
    ends: TimeWindow | Interval | None,
    is_before: Callable[[Column, Column], Column],
    literal: Callable[[Any], Column],
) -> list[Column]:
    bounds = ((ge, ends.from_), (is_before, ends.to)) if ends is not None else ()
    return [is_within(F.col(column), literal(end)) for is_within, end in bounds if end is not None]


def _has_failed(held_back: str) -> Column:
    failed = F.col("status") == "FAILED"
    if held_back == "Retrying":
        failed = failed & F.col("next_retry_at").isNotNull()
    # Only the first comparison prunes files by statistics.
    return (F.col("status") >= "FAILED") & (failed | ((F.col("status") == "PROCESSING") & (F.col("retries") > 0)))
