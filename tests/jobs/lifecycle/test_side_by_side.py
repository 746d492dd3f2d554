"""bpm-correlate's retries as a table of cases, each with the result of its own classes and of this store.

There an inbox sends; here a ReplayJob sends again what a consumer reported as failed. Where the two differ, the case
says what each does, and why.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import Retry
from messagestore_core.contract.replay import Selection
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_jobs.context import Run
from messagestore_jobs.lifecycle.transitions import LifecycleState, Update, after
from messagestore_jobs.replay.job import run_replay
from support.bpmcorrelate import Inbox, Kept, bpm_correlate
from support.ingests import START, lines, record
from support.lifecycles import Updated, update
from support.replays import files_replay, records
from support.stores import make_store, message

MOMENT = timedelta(milliseconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def inbox() -> Iterator[Inbox]:
    with bpm_correlate() as one:
        yield one


def retry(base: float, most: int, max_retries: int) -> Retry:
    """A retry policy; ``most`` is in minutes."""
    return Retry(backoff_base=base, max_backoff=most * MINUTE, max_retries=max_retries)


def tries_there(inbox: Inbox, told: Retry) -> list[datetime]:
    """The times of the tries, from now on, of a message that fails each time; checks that none comes earlier."""
    inbox.open(told)
    inbox.message("m")
    tried, due = [], START
    while inbox.correlate(due, ["m"]):
        tried.append(due)
        kept = inbox.kept("m")
        assert kept.next_retry_at is not None
        due = kept.next_retry_at
        assert inbox.correlate(due - MOMENT) == []
    return tried


def tries_here(told: Retry) -> list[datetime]:
    """The same, by an update FAILED for each attempt."""
    tried: list[datetime] = []
    due: datetime | None = START
    state = LifecycleState("RECEIVED")
    while due is not None:
        tried.append(due)
        changed = after(state, Update("FAILED", attempt=len(tried)), told, due)
        state, due = changed, changed.next_retry_at
    return tried


RETRIES = [
    retry(2, 180, 5),
    retry(2, 180, 0),
    retry(2, 180, 1),
    retry(2, 180, 12),
    retry(1, 180, 4),
    retry(3, 10, 4),
    retry(10, 100, 4),
    retry(60, 180, 3),
    retry(60, 3600, 3),
    retry(2, 0, 3),
    retry(2, 1, 3),
    retry(2, 100_000_000, 30),
    retry(60, 100_000_000, 8),
    retry(1.5, 180, 14),
    retry(1.1, 5, 20),
    retry(0.5, 180, 3),
    retry(1e200, 180, 3),
]


@pytest.mark.parametrize("told", RETRIES, ids=[f"{r.backoff_base}-{r.max_backoff}-{r.max_retries}" for r in RETRIES])
def test_a_message_that_keeps_failing_is_retried_at_the_times_of_bpm_correlate(inbox: Inbox, told: Retry) -> None:
    there = tries_there(inbox, told)

    assert tries_here(told) == there
    assert len(there) == 1 + told.max_retries


def test_the_job_notes_the_same_times(spark: SparkSession, tmp_path: Path, inbox: Inbox) -> None:
    """One message for each attempt, all reported at once; and one message that arrives as failed."""
    told = retry(1.5, 180, 14)
    there = tries_there(inbox, told)
    names = [f"m{attempt}" for attempt in range(1, len(there) + 1)]
    stream = Updated(spark, tmp_path, retry=told)
    stream.arrive("a.jsonl", lines(*map(record, names), record("arrived", status="FAILED")))
    stream.tell(*(update(name, "FAILED", attempt=attempt) for attempt, name in enumerate(names, 1)))
    stream.run()

    waits: list[timedelta | None] = [then - before for before, then in pairwise(there)]
    due = {row["message_id"]: row["next_retry_at"] for row in stream.messages()}
    waited = {name: at and at - START for name, at in due.items()}
    assert waited == {**dict(zip(names, [*waits, None], strict=True)), "arrived": waits[0]}


class Group(NamedTuple):
    """Messages with one correlation id, oldest first, and which of them are tried now.

    A message is its number of failures, and how long it has been due; ``None`` is a message that has never been sent.
    Three retries are allowed.
    """

    messages: tuple[tuple[int, timedelta] | None, ...]
    there: tuple[int, ...]
    here: tuple[int, ...]
    why: str = ""


DUE, LONG_DUE, NOT_YET = timedelta(0), HOUR, -MOMENT
WHOLE = "there one that is due takes its whole group along, before their time; here each waits for its own"
ONE_BY_ONE = "an answer comes later here, so the next goes once that before it is done"
BEHIND = "here only those behind it wait"
UNSENT = "what has never been sent is in the inbox there, and the consumer's own to read here"
GROUPS = {
    "due": Group(((1, DUE),), (0,), (0,)),
    "long due": Group(((1, LONG_DUE),), (0,), (0,)),
    "not due yet": Group(((1, NOT_YET),), (), ()),
    "its last try": Group(((3, DUE),), (0,), (0,)),
    "no try left": Group(((4, LONG_DUE),), (), ()),
    "two that are not due": Group(((1, NOT_YET), (2, NOT_YET)), (), ()),
    "behind one that is given up": Group(((4, DUE), (1, DUE)), (), ()),
    "unsent behind one that is not due": Group(((1, NOT_YET), None), (), ()),
    "unsent behind one that is given up": Group(((4, DUE), None), (), ()),
    "the second is not due": Group(((1, DUE), (1, NOT_YET)), (0, 1), (0,), WHOLE),
    "the first is not due": Group(((1, NOT_YET), (1, DUE)), (0, 1), (), WHOLE),
    "both are due": Group(((1, DUE), (2, DUE)), (0, 1), (0,), ONE_BY_ONE),
    "the second is given up": Group(((1, DUE), (4, DUE)), (), (0,), BEHIND),
    "unsent": Group((None,), (0,), (), UNSENT),
    "unsent behind one that is due": Group(((1, DUE), None), (0, 1), (0,), UNSENT),
    "unsent before one that is due": Group((None, (1, DUE)), (0, 1), (1,), UNSENT),
}
ALLOWED = retry(2, 180, 3)


def ids(name: str, numbers: tuple[int, ...]) -> list[str]:
    return [f"{name.replace(' ', '-')}-{n}" for n in numbers]


@pytest.fixture(scope="module")
def sent_here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """All groups in one store, and one round of a ReplayJob over it."""
    folder = tmp_path_factory.mktemp("groups")
    rows = [
        {"message_id": message_id, "correlation_id": name, **_row(one)}
        for name, group in GROUPS.items()
        for message_id, one in zip(ids(name, tuple(range(len(group.messages)))), group.messages, strict=True)
    ]
    table = make_store(folder / "store", [message(n, **row) for n, row in enumerate(rows, 1)])
    return _round(spark, table, folder / "out")


def _row(one: tuple[int, timedelta] | None) -> dict[str, object]:
    if one is None:
        return {}
    failures, since = one
    return {
        "status": "FAILED",
        "retries": failures,
        "next_retry_at": START - since if failures <= ALLOWED.max_retries else None,
    }


def _round(spark: SparkSession, table: Table, folder: Path) -> list[str]:
    """The ids that a ReplayJob sends; it holds groups back, as with order PerCorrelation and policy Retry."""
    select = Selection(due_for_retry=True, held_back="Failed")
    document = files_replay(table, folder, select=select, rounds=True, order="Global")
    run_replay(Run.of(document.model_copy(update={"at": START}), spark, Silent()))
    return [one["messageId"] for one in records(folder / "round-00000001")]


@pytest.mark.parametrize("name", GROUPS)
def test_messages_of_a_group_are_tried_again_as_in_bpm_correlate_or_with_a_reason(
    inbox: Inbox, sent_here: list[str], name: str
) -> None:
    group = GROUPS[name]
    inbox.open(ALLOWED)
    for n, one in enumerate(group.messages):
        failures, since = one or (0, None)
        inbox.message(
            *ids(name, (n,)),
            group="g",
            at=START - HOUR + n * MINUTE,
            retries=failures,
            next_retry_at=None if since is None else START - since,
        )

    assert inbox.correlate(START) == ids(name, group.there)
    assert [one for one in sent_here if one.rpartition("-")[0] == name.replace(" ", "-")] == ids(name, group.here)
    assert (group.there != group.here) == bool(group.why)


def test_a_message_that_fails_again_holds_its_group_in_both(inbox: Inbox) -> None:
    """Both send only the first then: bpm-correlate stops at a failure, this store never sends more than the first."""
    inbox.open(ALLOWED)
    for n in range(2):
        inbox.message(f"m{n}", group="g", at=START + n * MINUTE, retries=1, next_retry_at=START)

    assert inbox.correlate(START, ["m0"]) == ["m0"]
    assert inbox.kept("m1") == Kept(1, START, "RETRYING")


def test_bpm_correlate_tries_once_more_after_it_says_max_retries_reached(inbox: Inbox) -> None:
    """Their status counts to maxRetries, their selection beyond it: after MAX_RETRIES_REACHED one more try follows.

    Here a message is exhausted when no retry is left.
    """
    told = retry(2, 180, 2)
    inbox.open(told)
    inbox.message("m", retries=1, next_retry_at=START)
    inbox.correlate(START, ["m"])

    assert inbox.kept("m") == Kept(2, START + 4 * MINUTE, "MAX_RETRIES_REACHED")
    assert inbox.correlate(START + 4 * MINUTE, ["m"]) == ["m"]
    assert len(tries_here(told)) == 3


UNTIL = START + HOUR


@pytest.fixture(scope="module")
def lives_here(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, tuple[str, int]]]:
    """States of messages that live an hour, two of which fail: at the start, a moment before their end, and at it."""
    stream = Updated(spark, tmp_path_factory.mktemp("lives"), retry=ALLOWED)
    living = record("living", time=START.isoformat(), ttl="PT1H")
    others = (record(name, expiresAt=UNTIL.isoformat()) for name in ("failed", "unsent"))
    stream.arrive("a.jsonl", lines(living, *others))
    stream.tell(update("living", "FAILED"), update("failed", "FAILED"))
    states = []
    for at in (START, UNTIL - MOMENT, UNTIL):
        stream.run(at)
        states.append(stream.states())
    return states


def test_a_time_to_live_expires_a_message_but_makes_bpm_correlate_retry_it(
    inbox: Inbox, lives_here: list[dict[str, tuple[str, int]]]
) -> None:
    inbox.open(ALLOWED)
    inbox.message("living", ttl="PT1H")
    assert inbox.correlate(START, ["living"]) == ["living"]
    assert inbox.kept("living") == Kept(0, None, "IN_PROGRESS")
    assert inbox.correlate(UNTIL - MOMENT, ["living"]) == ["living"]
    assert inbox.kept("living") == Kept(0, None, "IN_PROGRESS")
    assert inbox.correlate(UNTIL, ["living"]) == ["living"]
    assert inbox.kept("living") == Kept(1, UNTIL + 2 * MINUTE, "RETRYING")

    assert [states["living"] for states in lives_here] == [("FAILED", 1), ("FAILED", 1), ("EXPIRED", 1)]


def test_a_failed_message_that_expires_is_tried_no_more_by_both(
    inbox: Inbox, lives_here: list[dict[str, tuple[str, int]]]
) -> None:
    """In bpm-correlate the next clean-up deletes it; here it stays, EXPIRED."""
    inbox.open(ALLOWED)
    inbox.message("failed", expires_at=UNTIL)
    inbox.correlate(START, ["failed"])
    inbox.clean(UNTIL - MOMENT)
    assert inbox.kept("failed") == Kept(1, START + 2 * MINUTE, "RETRYING")
    inbox.clean(UNTIL)
    assert inbox.kept("failed") is None

    assert [states["failed"] for states in lives_here] == [("FAILED", 1), ("FAILED", 1), ("EXPIRED", 1)]


def test_an_unsent_message_that_expires_is_sent_by_bpm_correlate_alone(
    inbox: Inbox, lives_here: list[dict[str, tuple[str, int]]]
) -> None:
    inbox.open(ALLOWED)
    inbox.message("unsent", expires_at=UNTIL)
    inbox.clean(UNTIL)
    assert inbox.correlate(UNTIL) == ["unsent"]

    assert [states["unsent"] for states in lives_here] == [("RECEIVED", 0), ("RECEIVED", 0), ("EXPIRED", 0)]
