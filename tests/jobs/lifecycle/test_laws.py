"""Histories of messages and updates, cut off anywhere, compared with a store in plain Python."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import Retry, UpdateCounts
from messagestore_core.store.audit import read_audit
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.handle import Store
from messagestore_jobs.lifecycle.transitions import UPDATES, LifecycleState, Update, after, expire
from support.external_writes import observing
from support.ingests import START, adds_up, lines, record
from support.lifecycles import Updated, update
from support.long import few
from support.replays import Crash

HOUR = timedelta(hours=1)
RETRY = Retry(max_retries=1, backoff_base=60)
DAY = timedelta(days=1)
TIMEOUT = 2 * HOUR


class Told(NamedTuple):
    """One record in the source of updates; with status None it is not an update."""

    number: int
    status: str | None = None
    attempt: int | None = None
    hours_ago: int | None = None

    def at(self, now: datetime) -> datetime | None:
        return None if self.hours_ago is None else now - self.hours_ago * HOUR

    def line(self, now: datetime) -> bytes:
        if self.status is None:
            return b"garbage %d" % self.number
        time = self.at(now)
        given = {"attempt": self.attempt, "time": time.isoformat() if time else None}
        return update(f"m{self.number}", self.status, **{k: v for k, v in given.items() if v is not None})


class Round(NamedTuple):
    """What arrives before a run, the hours until the run, and the write at which it is first cut off."""

    messages: tuple[tuple[int, int | None], ...] = ()
    """Number, and after how many hours it expires."""
    told: tuple[tuple[Told, ...], ...] = ()
    hours: int = 1
    cut_off: int | None = None


@dataclass
class Model:
    """Messages by id, and pending updates."""

    states: dict[str, LifecycleState] = field(default_factory=dict)
    pending: list[tuple[datetime, str, Update]] = field(default_factory=list)
    letters: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    acts: Counter[str] = field(default_factory=Counter)
    since: dict[str, datetime] = field(default_factory=dict)
    """The time of each message's last change."""

    def run(self, chosen: Round, now: datetime) -> None:
        for number, hours in chosen.messages:
            expires = None if hours is None else now + hours * HOUR
            self.states.setdefault(f"m{number}", LifecycleState("RECEIVED", expires_at=expires))
            self.since.setdefault(f"m{number}", now)
        waiting, self.pending = self.pending, []
        for since, message_id, told in waiting:
            if message_id not in self.states and since + DAY <= now:
                self.letters["UnknownMessage"] += 1
                self.counts["dead_lettered"] += 1
            else:
                self._apply(since, message_id, told, now)
        for one in (one for content in chosen.told for one in content):
            self.counts["received"] += 1
            if one.status is None:
                self.letters["Unparseable"] += 1
                self.counts["dead_lettered"] += 1
            else:
                self._apply(now, f"m{one.number}", Update(one.status, one.at(now), one.attempt), now)
        for message_id, state in self.states.items():
            if not state.terminal and state.expired(now):
                self.states[message_id] = expire(state)
                self.counts["expired"] += 1
        for message_id, state in self.states.items():
            failed = after(state, Update("FAILED"), RETRY, now)
            if state.status == "PROCESSING" and self.since[message_id] + TIMEOUT <= now and failed is not None:
                self.states[message_id] = failed
                self.counts["timed_out"] += 1

    def _apply(self, since: datetime, message_id: str, told: Update, now: datetime) -> None:
        if message_id not in self.states:
            self.pending.append((since, message_id, told))
            return
        state = after(self.states[message_id], told, RETRY, now)
        self.counts["stale" if state is None else "applied"] += 1
        if state is not None:
            self.counts["retried"] += told.status == "RETRY"
            self.acts[told.status] += told.status in ("RETRY", "PAUSE", "RESUME")
            self.states[message_id], self.since[message_id] = state, now


def play(stream: Updated, happened: list[Round]) -> None:
    model, now = Model(), START
    for n, chosen in enumerate(happened):
        now += chosen.hours * HOUR
        messages = [
            record(f"m{number}", **({} if hours is None else {"expiresAt": (now + hours * HOUR).isoformat()}))
            for number, hours in chosen.messages
        ]
        stream.arrive(f"{n}.jsonl", lines(*messages))
        for content in chosen.told:
            stream.tell(*(one.line(now) for one in content))
        if chosen.cut_off is not None:
            cut_off(stream, now, chosen.cut_off)
        outcome = stream.run(now)
        model.run(chosen, now)
        check(stream, model, outcome.lifecycle)


def cut_off(stream: Updated, now: datetime, write: int) -> None:
    """Start a run that ends at this write, if it has that many."""
    left = [write]

    def observer(name: str, moment: str) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Crash

    try:
        with observing(observer):
            stream.run(now)
    except Crash:
        pass


def check(stream: Updated, model: Model, report: Any) -> None:
    found = {
        row["message_id"]: LifecycleState(row["status"], row["retries"], row["next_retry_at"], row["expires_at"])
        for row in stream.messages()
    }
    assert found == model.states
    assert stream.pending() == [(message_id, told.status) for _, message_id, told in model.pending]
    assert Counter(letter["reason"] for letter in stream.dead_letters()) == model.letters
    note = last_note(Store(stream.table.uri))
    totals = note.updates.model_dump(exclude={"exhausted"})
    assert totals == UpdateCounts(**model.counts).model_dump(exclude={"exhausted"})
    assert totals["received"] == sum(totals[k] for k in ("applied", "stale", "dead_lettered")) + len(model.pending)
    assert adds_up(note.totals)
    assert report.pending == len(model.pending)
    # A batch that another run repeats has a row from each run.
    audit = read_audit(Store(stream.table.uri))
    for action, name in (("Retry", "retried"), ("Pause", "paused"), ("Resume", "resumed")):
        acts = {row["rules"]: row["counts"][name] for row in audit if row["action"] == action}
        assert sum(acts.values()) == model.acts[action.upper()]


told = st.builds(
    Told,
    st.integers(0, 5),
    st.sampled_from([*UPDATES, "FAILED", None]),
    st.sampled_from([None, None, 1, 2, 3]),
    st.sampled_from([None, None, 1]),
)
rounds = st.builds(
    Round,
    messages=st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, None, 2])), max_size=3).map(tuple),
    told=st.lists(st.lists(told, min_size=1, max_size=4).map(tuple), max_size=3).map(tuple),
    hours=st.sampled_from([1, 2, 24]),
    cut_off=st.sampled_from([None, *range(0, 20, 2)]),
)
LATE = (Told(1, "FAILED", 1), Told(1, "PROCESSING", 2), Told(9, "COMPLETED"))


KNOWN = [
    Round(((0, 2),), (LATE[:2], (Told(0, "PROCESSING"), Told(7)), LATE[2:]), cut_off=9),
    Round(((1, None),), ((Told(1, "FAILED", 1), Told(1, "FAILED", 2)), (Told(1, "COMPLETED"),)), cut_off=13),
    Round(((2, None),), ((Told(0, "COMPLETED", hours_ago=1), Told(2, "PROCESSING")),), hours=24, cut_off=6),
    Round((), ((Told(1, "RETRY"), Told(1, "RETRY"), Told(0, "RETRY")),), hours=2, cut_off=12),
]


@pytest.mark.parametrize("number", few([2, len(KNOWN)], 2))
def test_a_store_is_what_its_messages_and_updates_make_it(spark: SparkSession, tmp_path: Path, number: int) -> None:
    play(Updated(spark, tmp_path, retry=RETRY, processing_timeout=TIMEOUT), KNOWN[:number])


@pytest.mark.long
@given(st.lists(rounds, min_size=3, max_size=4))
@settings(
    max_examples=3,
    phases=[Phase.reuse, Phase.generate],
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_random_histories_meet_the_model(spark: SparkSession, folders: Iterator[Path], happened: list[Round]) -> None:
    play(Updated(spark, next(folders), retry=RETRY, processing_timeout=TIMEOUT), happened)
