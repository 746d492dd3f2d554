"""Which members of sequences go in a round and which wait, held against a model that remembers all that went."""

from dataclasses import dataclass, field
from datetime import timedelta

import pyarrow as pa
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.replay import Selection, Sequences
from messagestore_core.store import cursors
from messagestore_core.store.cursors import Cursor
from messagestore_jobs.replay.waiting import as_kept, falls_due, who_waits
from support.stores import START

HOUR = timedelta(hours=1)
TIMEOUT = 3 * HOUR
SCHEMA = pa.schema(
    [
        ("global_position", pa.int64()),
        ("sequence_id", pa.string()),
        ("sequence_number", pa.int64()),
        ("sequence_size", pa.int64()),
        ("sequence_end", pa.bool_()),
        ("time", pa.timestamp("us", "UTC")),
        ("chosen", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Member:
    sequence: str | None
    number: int
    size: int | None
    hours: int
    chosen: bool


@dataclass
class Model:
    """A subscription that remembers the position of each message that went."""

    members: list[Member]
    after: int
    or_overdue: bool
    went: set[int] = field(default_factory=set)

    def waits(self, until: int, now: int) -> list[int]:
        """The positions that wait after a round; all others that are chosen go."""
        mine = [at for at, one in self._up_to(until).items() if one.chosen and one.sequence and at > self.after]
        begun = {self.members[at - 1].sequence for at in self.went}
        waiting = [at for at in mine if at not in self.went and not self._goes(at, begun, until, now)]
        self.went |= set(mine) - set(waiting)
        return waiting

    def _goes(self, at: int, begun: set[str | None], until: int, now: int) -> bool:
        sequence = self.members[at - 1].sequence
        theirs = [one for one in self._up_to(until).values() if one.sequence == sequence]
        size = max((one.size for one in theirs if one.size is not None), default=None)
        is_complete = size is not None and {one.number for one in theirs} == set(range(1, size + 1))
        is_overdue = self.or_overdue and START + HOUR * min(one.hours for one in theirs) + TIMEOUT <= START + HOUR * now
        return is_complete or is_overdue or sequence in begun

    def _up_to(self, until: int) -> dict[int, Member]:
        return {at: one for at, one in enumerate(self.members, 1) if at <= until}


MEMBERS = st.builds(
    Member,
    sequence=st.sampled_from(["a", "b", "c", None]),
    number=st.integers(1, 3),
    size=st.sampled_from([None, None, 2, 3]),
    hours=st.integers(0, 6),
    chosen=st.sampled_from([True, True, True, False]),
)


def rows(members: list[Member]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "global_position": at,
                "sequence_id": one.sequence,
                "sequence_number": one.number if one.sequence else None,
                "sequence_size": one.size if one.sequence else None,
                "sequence_end": False,
                "time": START + HOUR * one.hours,
                "chosen": one.chosen,
            }
            for at, one in enumerate(members, 1)
        ],
        schema=SCHEMA,
    )


def cursor(after: int, order: str = "PerStream") -> Cursor:
    sequences = cursors.Sequences(run="r", after=after, order=order)
    return Cursor(store="s", subscription="n/j", global_position=after, run="r", job="j", sequences=sequences)


@settings(
    max_examples=8,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    members=st.lists(MEMBERS, min_size=4, max_size=14),
    after=st.integers(0, 3),
    rounds=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4)), min_size=3, max_size=4),
    or_overdue=st.booleans(),
)
@example([Member("a", 2, 2, 0, True), Member("a", 1, None, 0, True)], 0, [(1, 0), (1, 0), (0, 9)], False)
@example([Member("a", 2, 3, 0, True), Member("a", 1, None, 5, True)], 0, [(1, 2), (0, 1), (1, 0)], True)
@example([Member("a", number, 2, 0, True) for number in (1, 2, 3)], 0, [(2, 0), (1, 0)], False)
def test_waiting_members_are_those_of_a_model_that_remembers_all_sent_ones(
    spark: SparkSession,
    members: list[Member],
    after: int,
    rounds: list[tuple[int, int]],
    or_overdue: bool,
) -> None:
    selection = Selection(
        sequences=Sequences(complete_only=True, or_overdue=or_overdue),
        sequence_timeout=TIMEOUT if or_overdue else None,
    )
    model, messages = Model(members, after, or_overdue), spark.createDataFrame(rows(members))
    at, hour = cursor(after), 0
    for more, later in rounds:
        until, hour = min(at.global_position + more, max(len(members), after)), hour + later
        expected = model.waits(until, hour)
        now = START + HOUR * hour
        kept = as_kept(who_waits(messages, F.col("chosen"), selection, at, until, now))
        assert list(kept.positions) == expected
        assert not falls_due(kept, selection, now)
        assert (kept.oldest_time is None) == (not expected)
        sequences = at.sequences.model_copy(update={"waiting": kept})
        at = at.model_copy(update={"global_position": until, "sequences": sequences})
        assert at.passed == min([until, *(position - 1 for position in expected)])
