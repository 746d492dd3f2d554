"""Random events of a store in random order, with runs cut off anywhere: the store always matches the model."""

import os
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from messagestore_core.store.schemas import TABLES
from messagestore_jobs.replay import chunks
from support.histories.steps import (
    Damaged,
    Erasure,
    Foreign,
    GoOn,
    Growth,
    Ingest,
    Maintain,
    MakeAgain,
    Purge,
    Record,
    Redeliver,
    Redrive,
    Replay,
    RestoreAll,
    Step,
    Told,
)
from support.histories.world import World
from support.long import few

pytestmark = pytest.mark.usefixtures("index_merged_often")

HISTORIES = int(os.environ.get("MESSAGESTORE_HISTORIES", "1"))
"""How many random histories (`make test-histories`)."""
SEED = int(os.environ.get("MESSAGESTORE_HISTORIES_SEED", "20261123"))
"""`make test` always has the same, so that only a change can make it fail; `make test-histories` tries others."""
SHARE = 5
"""The number of histories per test; `make test-histories` has two workers."""
HALF_A_YEAR = 4400
STREAMS = ("a-1", "a-2", "b")
KINDS = (
    "stored", "duplicates", "Unparseable", "InvalidField", "ExpiredOnArrival", "WrongExpectedVersion",
    "applied", "stale", "waits", "met", "UnknownMessage", "expired", "RetriesExhausted", "set aside as it was",
    "purged", "erased", "scrubbed", "purge went on", "stays after all", "not erased after all",
    "comes after its purge", "told after its purge",
    "to files", "to stream", "in order of sequences", "replay went on", "sent again",
    "erased under a replay", "erased before it was sent", "lost by an erasure", "sent as it was later",
    "asked for something else", "refused in another's folder",
    "redriven", "failed again", "redriven again", "Redrive cut off", "Redrive unheard",
    "maintained", "maintained under a replay",
    "MissingField", "Unselected", "filtered", "judged anew", "updates judged anew", "withdrawn",
    "optimize", "optimize without statistics", "vacuum", "compact", "others under a purge", "others under a replay",
    "restored", "rolled back", "lost", "all restored", "stored after a repair",
    "made again",
    "Ingest cut off", "Purge cut off", "Replay cut off", "Redeliver cut off", "Maintain cut off",
    "file gone", "file grows", "file grows in its batch",
    "Ingest unheard", "Purge unheard", "Replay unheard", "Redeliver unheard", "Maintain unheard",
)  # fmt: skip

record = st.builds(
    Record,
    st.integers(0, 9),
    st.sampled_from(STREAMS),
    garbage=st.sampled_from([False] * 5 + [True]),
    expects=st.sampled_from([None, None, None, -1, 0, 1]),
    lasts=st.sampled_from([None, None, 3, 8, 30]),
    group=st.sampled_from([None, "g"]),
    place=st.sampled_from([None, 1, 2, 3]),
    size=st.sampled_from([None, None, 2, 3]),
)
told = st.builds(
    Told,
    st.integers(0, 9),
    st.sampled_from(["RECEIVED", "PROCESSING", "COMPLETED", "FAILED", "FAILED", "FAILED", "EXPIRED", None]),
    st.sampled_from([None, None, 1, 2, 3]),
    st.sampled_from([None, None, 2]),
)
held = st.lists(st.integers(0, 9), max_size=2).map(tuple)
ingests = st.builds(
    Ingest,
    st.lists(st.lists(record, min_size=2, max_size=6).map(tuple), min_size=1, max_size=3).map(tuple),
    st.lists(st.lists(told, min_size=2, max_size=6).map(tuple), max_size=3).map(tuple),
    st.lists(st.integers(0, 5), max_size=2).map(tuple),
    st.integers(1, 2),
    st.sampled_from(["takes all"] * 4 + ["asks for groups", "sets b aside", "drops b", "stores expired"]),
    st.one_of(st.none(), st.builds(Growth, st.integers(0, 5), st.lists(record, min_size=1, max_size=3).map(tuple))),
)
ages = st.sampled_from([0, 1, 3])
purges = st.one_of(
    st.builds(lambda older, scrubs, held: Purge(older=older, scrubs=scrubs, held=held), ages, st.booleans(), held),
    st.builds(
        lambda stream, scrubs, held: Purge(stream=stream, scrubs=scrubs, held=held),
        st.sampled_from(STREAMS),
        st.booleans(),
        held,
    ),
    st.sampled_from([Purge(status=status) for status in ("RECEIVED", "FAILED", "COMPLETED", "EXPIRED")]),
    st.builds(lambda number: Purge(erased=number), st.integers(0, 9)),
)
replays = st.builds(
    Replay,
    st.sampled_from(["files", "stream"]),
    st.sampled_from(["PerStream", "Global", "Sequence", "None"]),
    st.sampled_from([None, *STREAMS]),
    st.sampled_from([None, None, "RECEIVED", "FAILED"]),
    st.sampled_from([None, 3]),
    st.booleans(),
)
foreign = st.builds(
    Foreign,
    st.sampled_from(["optimize", "optimize without statistics", "vacuum", "compact"]),
    st.sampled_from([None, "messages", "messages", "dead_letters", "files", "heads", "tombstones"]),
)
damaged = st.builds(Damaged, st.sampled_from(["restored", "rolled back", "lost"]), st.sampled_from(sorted(TABLES)))
redrives = st.builds(Redrive, st.sampled_from(["takes all", "stores expired"]))
steps = st.builds(
    Step,
    st.one_of(
        *[ingests] * 3,
        *[purges] * 2,
        replays,
        redrives,
        foreign,
        damaged,
        *map(st.just, (Redeliver(), Maintain(), RestoreAll(), MakeAgain(), GoOn())),
    ),
    st.sampled_from([0, 1, 1, 3, 13, HALF_A_YEAR]),
    st.lists(st.integers(0, 30), max_size=2).map(tuple),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.one_of(st.none(), st.builds(Erasure, st.integers(0, 9), st.integers(0, 30))),
)

FIVE = tuple(Record(n, STREAMS[n % 3], place=5 - n) for n in range(5))
MIXED = (
    Record(1, garbage=True), Record(2), Record(5, lasts=2, group="g"), Record(6, lasts=0), Record(7, "b", expects=7),
)  # fmt: skip

histories = st.builds(lambda first, others: [Step(first), *others], ingests, st.lists(steps, min_size=4, max_size=7))
"""The first step is an ingest: before the first messages little can go wrong."""

RETRIED = [
    Step(Ingest((FIVE, MIXED), ((Told(0, "FAILED"), Told(1, "PROCESSING"), Told(8, "FAILED", 1)), (Told(3, None),)))),
    Step(Redeliver(), hours=2, cuts=(7,), left=True),
    Step(Ingest(((Record(8),),), ((Told(0, "FAILED", 2), Told(9, "COMPLETED"), Told(2, "RECEIVED")),)), cuts=(9, 14)),
    Step(Redeliver(), hours=3, cuts=(3, 8)),
    Step(Replay("files", "Sequence"), cuts=(6,)),
    Step(Maintain()),
    Step(Ingest(updates=((Told(0, "COMPLETED"),),)), hours=30, cuts=(5,), left=True),
]
EXHAUSTED = [
    Step(
        Ingest(
            ((Record(1, place=2, size=3), Record(2, place=1, size=2), Record(3, place=4)),), ((Told(1, "FAILED", 2),),)
        )
    ),
    # The message has been set aside when it is sent again, and is not changed yet.
    Step(Ingest(updates=((Told(1, "FAILED", 3),),)), cuts=(4,), left=True),
    Step(Redeliver(), hours=3),
    Step(Ingest(updates=((Told(2, "COMPLETED"),),))),
]
PURGED = [
    Step(Ingest((FIVE, MIXED), again=(0,))),
    Step(Replay("stream"), cuts=(30,), left=True),
    Step(Purge(stream="a-1", held=(3,)), cuts=(9,), left=True),
    Step(Maintain(), cuts=(6,)),
    Step(Ingest((MIXED,), ((Told(0, "COMPLETED"),),), again=(0,)), cuts=(7,)),
    Step(Purge(older=1, scrubs=True), cuts=(16,), left=True),
    Step(Ingest(updates=((Told(2, "FAILED"), Told(4, "PROCESSING")),))),
    Step(Purge(erased=1), cuts=(17,)),
    Step(Ingest((FIVE,), ((Told(1, "COMPLETED"),),))),
    Step(Purge(status="FAILED")),
]
CUT_OFF = [
    Step(Ingest(((Record(1),),))),
    # Its first try does not find the expected version; the second would.
    Step(Ingest(((Record(1), Record(2, expects=1)),)), cuts=(3,), left=True),
    Step(Purge(stream="a-1")),
]
UNHEARD = [
    Step(Ingest((FIVE, MIXED), ((Told(0, "FAILED"), Told(8, "FAILED", 1)),)), cuts=(0, 1, 2), left=True, unheard=True),
    Step(Ingest(((Record(8),),)), cuts=(1,), unheard=True),
    Step(Redeliver(), hours=2, cuts=(0, 3), unheard=True),
    Step(Replay("stream", "Sequence"), cuts=(0, 3), unheard=True),
    Step(Purge(erased=1), cuts=(2, 4), left=True, unheard=True),
    Step(Maintain(), hours=HALF_A_YEAR, cuts=(5,), unheard=True),
    Step(Purge(older=1, scrubs=True), cuts=(3,), unheard=True),
]
GONE = [
    Step(Ingest((MIXED, FIVE), files_in_a_batch=2), cuts=(4, 6), gone=True),
    Step(Ingest(again=(0,)), hours=2),
    Step(Ingest((MIXED,), again=(1,), files_in_a_batch=1), cuts=(2, 3), unheard=True, gone=True),
    Step(Purge(erased=2)),
    Step(Ingest(again=(1, 2), growth=Growth(0, (Record(8), Record(9, expects=7), Record(9, garbage=True)))), cuts=(5,)),
    # The batch has dead letters, and is repeated.
    Step(Ingest((MIXED,)), cuts=(4,), left=True),
    Step(Ingest(growth=Growth(3, (Record(9),)))),
]
NOT_ERASED = [
    Step(Ingest((FIVE,))),
    Step(Replay("files"), cuts=(6,), left=True),
    Step(Purge(erased=1), cuts=(8,), left=True),
    Step(Replay("files")),
    Step(Ingest(((Record(1),),), ((Told(1, "COMPLETED"),),))),
    Step(Purge(status="NONE", held=(1,)), cuts=(1, 3)),
    Step(Replay("files")),
    Step(Ingest(updates=((Told(1, "FAILED"),),))),
    Step(Purge(erased=1)),
]
REMEMBERED = [
    Step(Ingest((FIVE, MIXED), ((Told(2, "COMPLETED"),),))),
    Step(Purge(stream="a-1"), cuts=(7, 9, 11), left=True),
    Step(Purge(status="COMPLETED"), cuts=(8,)),
    Step(Ingest((FIVE,), ((Told(0, "COMPLETED"), Told(2, "FAILED"), Told(8, "FAILED")),)), cuts=(5,)),
    Step(Ingest((FIVE,)), hours=8),
    Step(Maintain(), hours=40),
    Step(Ingest((FIVE, MIXED)), cuts=(6,)),
]
DAMAGED = [
    Step(Ingest((FIVE, MIXED), ((Told(0, "FAILED"),),), files_in_a_batch=1)),
    Step(Damaged("rolled back", "messages")),
    Step(Purge(stream="a-1"), cuts=(9,), left=True),
    Step(Damaged("restored", "messages")),
    Step(Damaged("restored", "audit")),
    Step(Damaged("lost", "heads")),
    Step(Purge(erased=4)),
    Step(Damaged("lost", "tombstones")),
    Step(Redeliver(), hours=2),
    Step(Replay("files"), cuts=(6,), left=True),
    Step(Purge(older=0), cuts=(5,), left=True),
    Step(MakeAgain()),
    Step(Ingest(((Record(8),),)), hours=2),
    Step(Redeliver(), hours=2),
    Step(Purge(stream="b")),
    Step(Ingest(((Record(9), Record(2, "b")), FIVE)), hours=2),
    Step(RestoreAll()),
]
ERASED_MEANWHILE = [
    Step(Ingest(((*FIVE, Record(5, lasts=2), Record(6), Record(7)),))),
    # It has staged the first four messages.
    Step(Replay("files"), cuts=(12,), left=True),
    Step(Ingest(((Record(4, garbage=True),),), ((Told(6, "COMPLETED"),),)), hours=2),
    Step(Purge(status="EXPIRED")),
    Step(Replay("stream"), erases=Erasure(4, 5)),
    Step(GoOn(), erases=Erasure(7, 2)),
]
MADE_AGAIN = [
    Step(Ingest((FIVE,))),
    Step(Replay("stream", stream="a-1"), cuts=(40,), left=True),
    Step(Replay(limit=3, remade=True), cuts=(11,)),
    Step(Replay("files", limit=3)),
    Step(Replay(remade=True)),
]
REDRIVEN = [
    Step(Ingest((FIVE, MIXED), spec="asks for groups")),
    Step(Ingest(((Record(8, "b", expects=0), Record(9, expects=9), Record(9, garbage=True)),))),
    Step(Redrive(), cuts=(4,), unheard=True),
    Step(Redrive("stores expired"), cuts=(3, 11)),
    Step(Purge(erased=9)),
    # A dead letter that names an erased message is not sent.
    Step(Ingest((FIVE, (Record(9, garbage=True),)), again=(0, 1))),
    Step(Redrive()),
]
JUDGED_ANEW = [
    # A file is gone, of which an earlier try set a record aside.
    Step(Ingest((MIXED, FIVE), spec="asks for groups"), cuts=(4,), left=True, gone=True),
    Step(Ingest(spec="sets b aside"), cuts=(5, 2), left=True),
    Step(Ingest(spec="drops b"), cuts=(3,)),
    Step(Ingest((MIXED,), spec="asks for groups"), cuts=(4,), left=True),
    Step(Ingest(spec="stores expired")),
    Step(Ingest(updates=((Told(0, "FAILED", 3), Told(1, None)),)), cuts=(3,), left=True),
    Step(Ingest(spec="stores expired"), cuts=(1,)),
]
MAINTAINED_BY_OTHERS = [
    Step(Ingest((FIVE, MIXED), ((Told(0, "FAILED"), Told(1, "COMPLETED"), Told(8, "FAILED")),), files_in_a_batch=1)),
    Step(Foreign("optimize without statistics")),
    Step(Replay("files"), cuts=(6,), left=True),
    # It has removed whole days, or rows.
    Step(Purge(stream="a-1"), cuts=(9,), left=True),
    Step(Foreign("vacuum")),
    Step(Foreign("optimize", "messages")),
    Step(Redeliver(), hours=2, cuts=(5,), left=True),
    Step(Purge(erased=4), cuts=(4,), left=True),
    Step(Foreign("compact")),
    Step(GoOn()),
    Step(Ingest((MIXED,), ((Told(8, "COMPLETED"),),), again=(0,)), hours=8),
]
KNOWN = {
    "retried": RETRIED, "exhausted": EXHAUSTED, "purged": PURGED, "cut off": CUT_OFF, "unheard": UNHEARD, "gone": GONE,
    "not erased": NOT_ERASED, "remembered": REMEMBERED, "judged anew": JUDGED_ANEW, "damaged": DAMAGED,
    "maintained by others": MAINTAINED_BY_OTHERS, "erased meanwhile": ERASED_MEANWHILE,
    "redriven": REDRIVEN, "made again": MADE_AGAIN,
}  # fmt: skip
EIGHT_HOURS = timedelta(hours=8)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_ROWS", 2)
    monkeypatch.setattr(chunks, "_OBJECT_ROWS", 1)


@pytest.mark.parametrize("name", few(KNOWN, "cut off"))
def test_a_store_is_what_its_history_makes_it(spark: SparkSession, tmp_path: Path, name: str) -> None:
    lived(KNOWN[name], spark, tmp_path, EIGHT_HOURS if name == "remembered" else None)


@pytest.mark.long
def test_all_histories_together_meet_everything_there_is(spark: SparkSession, tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    for name, history in KNOWN.items():
        seen.update(lived(history, spark, tmp_path / name, EIGHT_HOURS if name == "remembered" else None))
    assert not [kind for kind in KINDS if not seen[kind]]


@pytest.mark.parametrize("share", range(-(-HISTORIES // SHARE)))
def test_a_store_is_what_any_history_makes_it(spark: SparkSession, tmp_path: Path, share: int) -> None:
    folders = (tmp_path / str(n) for n in range(1_000_000))

    @seed(SEED + share)
    @given(histories, st.sampled_from([None, EIGHT_HOURS]))
    @settings(
        # Shrinking would run for an hour; a failed history is printed whole.
        max_examples=min(SHARE, HISTORIES - share * SHARE),
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def lives(history: list[Step], remember_purged: timedelta | None) -> None:
        lived(history, spark, next(folders), remember_purged)

    lives()


def lived(
    history: list[Step], spark: SparkSession, folder: Path, remember_purged: timedelta | None = None
) -> Counter[str]:
    """Run a history, compare the store with the model after each step, and return what was seen."""
    rolled_back = any(isinstance(step.does, Damaged) and step.does.how == "rolled back" for step in history)
    world = World(spark, folder, remember_purged=remember_purged, keeps_copies=rolled_back)
    for step in history:
        world.happen(step)
    world.end()
    return world.model.seen
