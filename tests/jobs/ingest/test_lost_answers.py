"""A commit succeeded but its answer was lost: the table decides."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.handle import Store
from support.external_writes import observing, unheard
from support.ingests import START, Stream, lines, positions_have_no_gap, record
from support.lifecycles import Updated, update
from support.long import few

LARGE = b'"' + b"x" * 50 + b'"'


def losing_the_first_answer(write: str, meanwhile: Callable[[], object]) -> Callable[[str, str], None]:
    """An observer of a run: after the first write with this name it calls ``meanwhile``, and then the write fails."""
    answers = iter([True])

    def observer(name: str, moment: str) -> None:
        if (name, moment) == (write, "after") and next(answers, False):
            meanwhile()
            raise PySparkException("connection reset by peer")

    return observer


CHANGES = range(1, 40)


class Changing(Updated):
    """A stream whose files change."""

    changes = 0
    ever: frozenset[str] = frozenset()

    def change(self) -> None:
        """Make the next change; the first one creates the files."""
        self.changes += 1
        assert self.changes in CHANGES
        for number in CHANGES:
            path = self.landing / f"gone-{number}.jsonl"
            if self.changes == 1:
                self.arrive(path.name, lines(record(f"g{number}")))
            elif number < self.changes:
                path.unlink(missing_ok=True)
        self.arrive("shrinks.jsonl", lines(*(record(f"s{n}") for n in reversed(CHANGES[: -self.changes]))))
        self.arrive("grows.jsonl", lines(*(record(f"w{n}", payload=b'"large"') for n in range(self.changes))))
        self.arrive("replaced.jsonl", lines(record(f"r{self.changes}", payload=LARGE), b"garbage"))
        self.tell(update("w0", "COMPLETED"), update(f"w{self.changes}", "FAILED"))
        self.ever |= self.there()

    def there(self) -> frozenset[str]:
        """The ids in the files now."""
        content = b"".join(path.read_bytes() for path in self.landing.iterdir())
        return frozenset(found.decode() for found in re.findall(rb'"messageId": ?"(\w+)"', content))


def test_a_batch_that_is_in_the_table_is_not_taken_in_again(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 2})
    stream.arrive("a.jsonl", lines(record("m1"), record("m2", streamName="other-1")))
    stream.arrive("b.jsonl", lines(b"garbage"))
    stream.arrive("c.jsonl", lines(record("m1"), record("m3"), record("m4", streamName="other-1")))

    with observing(losing_the_first_answer("messages", lambda: None)):
        outcome = stream.run()

    rows = stream.messages()
    assert [row["message_id"] for row in rows] == ["m1", "m2", "m3", "m4"]
    assert [row["global_position"] for row in rows] == [1, 2, 3, 4]
    assert [(row["stream_name"], row["position"]) for row in rows if row["stream_name"] == "other-1"] == [
        ("other-1", 0),
        ("other-1", 1),
    ]
    assert outcome.counts.model_dump(exclude={"filtered", "discarded", "unknown_fields"}) == {
        "received": 6,
        "stored": 4,
        "duplicates": 1,
        "dead_lettered": 1,
    }
    assert last_note(Store(stream.table.uri)).totals == outcome.totals
    assert outcome.batches == 2
    assert stream.run(at=START).batches == 0


BEFORE = {
    "gone.jsonl": [record("m1")],
    "shrunk.jsonl": [record("m2"), record("m3")],
    "grown.jsonl": [record("m4", streamName="other-1"), b"garbage a"],
    "replaced.jsonl": [record("m5"), b"garbage b"],
}
AFTER = {
    "shrunk.jsonl": BEFORE["shrunk.jsonl"][:1],
    "grown.jsonl": [*BEFORE["grown.jsonl"], record("m6", streamName="other-1")],
    "replaced.jsonl": [record("m7", streamName="other-1"), record("m8")],
}
REPLACED_WITHIN = record("m8")[: len(b"garbage b\n")]
"""The part of the second record up to where the file ended when its batch was planned."""


class Ends(NamedTuple):
    """A store at the end: ids in order of arrival, dead letters, and the counts over all runs."""

    ids: str
    set_aside: set[bytes]
    counts: IngestCounts


ENDS = {
    # The store has what was there when the batch was committed.
    "messages": Ends(
        "m1 m2 m3 m4 m5 m9 m6 m7 m8",
        {b"garbage a", b"garbage b"},
        IngestCounts(received=15, stored=9, duplicates=4, dead_lettered=2),
    ),
    # The store has what is there at the next try; the first try's dead letter of a lost record stays and counts.
    "dead-letters": Ends(
        "m2 m4 m7 m1 m9 m6 m8",
        {b"garbage a", b"garbage b", REPLACED_WITHIN},
        IngestCounts(received=14, stored=7, duplicates=4, dead_lettered=3),
    ),
}


@pytest.mark.parametrize("write", few(ENDS, "messages"))
def test_of_files_that_change_before_the_next_try_each_record_is_stored_once(
    spark: SparkSession, tmp_path: Path, write: str
) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": len(BEFORE)})
    for name, records in BEFORE.items():
        stream.arrive(name, lines(*records))
    stream.arrive("c.jsonl", lines(record("m1"), record("m9")))

    def change() -> None:
        (stream.landing / "gone.jsonl").unlink()
        for name, records in AFTER.items():
            stream.arrive(name, lines(*records))

    with observing(losing_the_first_answer(write, change)):
        stream.run()
    totals = stream.run().totals

    ends = ENDS[write]
    assert stream.ids() == ends.ids.split()
    assert {raw for _, raw in stream.set_aside()} == ends.set_aside
    assert totals == ends.counts
    assert [row["global_position"] for row in stream.messages()] == list(range(1, totals.stored + 1))
    assert positions_have_no_gap(stream.messages())


@pytest.mark.long
def test_whatever_answer_is_lost_and_however_its_input_changes_each_record_ends_in_one_place(
    spark: SparkSession, tmp_path: Path
) -> None:
    """At each lost answer one file is deleted, one grows, one shrinks, and one is replaced."""
    settings = {"max_files_per_batch": len(CHANGES), "claim_check_bytes": 40}
    heard = Changing(spark, tmp_path / "heard", settings)
    heard.change()
    writes = set[str]()
    with observing(lambda name, moment: writes.add(name)):
        heard.run()
    stream = Changing(spark, tmp_path / "unheard", settings)
    stream.change()

    _, lost = unheard(stream.run, stream.change)
    totals = stream.run().totals

    assert lost >= writes
    ids = stream.ids()
    assert len(ids) == len(set(ids)) == totals.stored
    assert stream.there() <= set(ids) <= stream.ever
    assert totals.received == totals.stored + totals.duplicates + totals.dead_lettered
    assert totals.dead_lettered <= len(stream.set_aside())
    assert [row["global_position"] for row in stream.messages()] == list(range(1, len(ids) + 1))
    assert positions_have_no_gap(stream.messages())
    assert stream.states()["w0"][0] == "COMPLETED"


def test_a_plan_whose_answer_got_lost_is_carried_out_by_the_next_run(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path, {"max_files_per_batch": 1})
    stream.arrive("a.jsonl", lines(record("m1")))
    stream.arrive("b.jsonl", lines(record("m2")))

    with observing(losing_the_first_answer("plan", lambda: None)), pytest.raises(PySparkException):
        stream.run()
    outcome = stream.run()

    assert stream.ids() == ["m1", "m2"]
    assert outcome.counts.received == 2
