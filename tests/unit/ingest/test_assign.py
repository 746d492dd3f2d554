"""Duplicates, positions and counts of a batch, compared with the same rules in plain Python."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.contract.ingest import IngestCounts
from messagestore_jobs.index.keys import Keys
from messagestore_jobs.ingest.assign import REFUSED, Arrived, Assignment, assign, count
from messagestore_jobs.ingest.refusals import Expected, Members, Sizes

OnExpired = Literal["DeadLetter", "Store", "Discard"]


@dataclass
class Record:
    message_id: str
    stream: str
    fate: Literal["open", "dead", "unselected", "expired"] = "open"
    expects: int | None = None
    sequence: str | None = None
    number: int = 0
    size: int = 0


@dataclass
class Store:
    """A store in plain Python."""

    ids: set[str] = field(default_factory=set)
    heads: dict[str, int] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    lasts: dict[str, int] = field(default_factory=dict)
    next_global: int = 1

    def take(self, record: Record, on_expired: OnExpired) -> tuple[str, int, int]:
        if record.fate in ("dead", "unselected"):
            return record.fate, -1, -1
        if record.message_id in self.ids:
            return "duplicate", -1, -1
        if record.fate == "expired" and on_expired != "Store":
            return "expired", -1, -1
        position = self.heads.get(record.stream, 0)
        if record.sequence is not None and not self.fits(record.sequence, record.number, record.size):
            return "InvalidField", REFUSED, -1
        if record.expects is not None and record.expects != position - 1:
            return (
                f"Wrong expected version: {record.expects} (Stream: {record.stream}, Stream Version: {position - 1})",
                REFUSED,
                -1,
            )
        self.ids.add(record.message_id)
        self.heads[record.stream] = position + 1
        self.next_global += 1
        if record.sequence is not None:
            self.sizes[record.sequence] = self.sizes.get(record.sequence, 0) or record.size
            self.lasts[record.sequence] = max(self.lasts.get(record.sequence, 0), record.number)
        return "stored", position, self.next_global - 1

    def fits(self, sequence: str, number: int, size: int) -> bool:
        known, last = self.sizes.get(sequence, 0), self.lasts.get(sequence, 0)
        told = size or known
        return not (size and known and size != known) and not (told and max(number, last) > told)


def keys_of(ids: list[str]) -> Keys:
    """All ids share four first halves, so that most collide; the second half distinguishes them."""
    high = [(sum(i.encode()) % 4 - 2) % (1 << 64) for i in ids]
    return Keys.of(np.array(high, dtype=np.uint64), np.array([low_of(i) for i in ids], dtype=np.uint64))


def low_of(message_id: str) -> int:
    return int.from_bytes(hashlib.sha256(message_id.encode()).digest()[:8])


def arrived(records: list[Record]) -> Arrived:
    dead = np.array([r.fate == "dead" for r in records], dtype=np.bool_)
    expecting = [(row, r.expects) for row, r in enumerate(records) if r.expects is not None]
    sequences = sorted({r.sequence for r in records if r.sequence is not None})
    members = [
        (row, sequences.index(r.sequence), r.number, r.size) for row, r in enumerate(records) if r.sequence is not None
    ]
    rows, codes, numbers, sizes = np.array(members, dtype=np.int64).reshape(-1, 4).T
    return Arrived(
        # A dead letter may lack an id and a stream.
        keys=keys_of(["" if r.fate == "dead" else r.message_id for r in records]),
        streams=pa.array([None if r.fate == "dead" else r.stream for r in records], pa.string()),
        dead=dead,
        unselected=np.array([r.fate == "unselected" for r in records], dtype=np.bool_),
        expired=np.array([r.fate == "expired" for r in records], dtype=np.bool_),
        expected=Expected(*np.array(expecting, dtype=np.int64).reshape(-1, 2).T),
        members=Members(rows, pa.array(sequences, pa.string()), codes, numbers, sizes),
    )


def assigned(records: list[Record], store: Store, on_expired: OnExpired = "DeadLetter") -> Assignment:
    return assign(
        arrived(records),
        lambda keys: np.isin(keys.low, np.array([low_of(i) for i in store.ids], dtype=np.uint64)),
        lambda streams: np.array([store.heads.get(s, 0) for s in streams.to_pylist()], dtype=np.int64),
        store.next_global,
        on_expired,
        store_sizes(store),
    )


def store_sizes(store: Store) -> Callable[[pa.Array], Sizes]:
    def told(names: pa.Array) -> Sizes:
        known = [(store.sizes.get(name, 0), store.lasts.get(name, 0)) for name in names.to_pylist()]
        return Sizes(*np.array(known, dtype=np.int64).reshape(-1, 2).T)

    return told


def outcome(assignment: Assignment, arrived: Arrived, place: int) -> tuple[str, int, int]:
    if assignment.stored[place]:
        return "stored", int(assignment.position[place]), int(assignment.global_position[place])
    refused = assignment.refused
    for row, reason, detail in zip(refused.rows, refused.reasons, refused.details, strict=True):
        if row == place:
            words = detail if reason == "WrongExpectedVersion" else str(reason)
            return words, int(assignment.position[place]), -1
    named = {
        "dead": arrived.dead,
        "unselected": arrived.unselected,
        "duplicate": assignment.duplicates,
        "expired": assignment.expired,
    }
    found = [name for name, flags in named.items() if flags[place]]
    assert len(found) == 1, f"one place for each record, not {found}"
    return found[0], int(assignment.position[place]), -1


records = st.lists(
    st.builds(
        Record,
        st.sampled_from([f"m{n}" for n in range(12)] + ["", "é", "m" * 50]),
        st.sampled_from(["a", "a-1", "b-1", "b-1+2"]),
        st.sampled_from(["open", "open", "open", "dead", "unselected", "expired"]),
        st.none() | st.integers(-1, 5),
        st.none() | st.sampled_from(["s", "t"]),
        st.integers(0, 4),
        st.sampled_from([0, 0, 3, 4]),
    ).filter(lambda r: not r.size or r.number <= r.size),
    max_size=40,
)


@given(st.lists(records, max_size=4), st.sampled_from(["DeadLetter", "Store", "Discard"]))
def test_batches_one_after_the_other_give_what_records_one_by_one_give(
    batches: list[list[Record]], on_expired: OnExpired
) -> None:
    plain, kept = Store(), Store()
    for batch in batches:
        given_out = assigned(batch, kept, on_expired)
        rows = arrived(batch)
        expected = [plain.take(record, on_expired) for record in batch]
        assert [outcome(given_out, rows, place) for place in range(len(batch))] == expected
        kept.ids |= {r.message_id for r, stored in zip(batch, given_out.stored, strict=True) if stored}
        kept.heads |= zip(given_out.streams.to_pylist(), given_out.next_positions.tolist(), strict=True)
        kept.next_global = given_out.next_global
        after = rows.members.after(store_sizes(kept)(rows.members.names), given_out.stored)
        names = rows.members.names.to_pylist()
        kept.sizes |= zip(names, after.sizes.tolist(), strict=True)
        kept.lasts |= zip(names, after.lasts.tolist(), strict=True)
    assert (kept.heads, kept.next_global) == (plain.heads, plain.next_global)


def refused(fates: list[str]) -> int:
    return sum("Wrong" in fate or fate == "InvalidField" for fate in fates)


@given(records, st.sampled_from(["DeadLetter", "Store", "Discard"]))
def test_every_record_is_counted_once(batch: list[Record], on_expired: OnExpired) -> None:
    plain = Store()
    fates = [plain.take(record, on_expired)[0] for record in batch]
    expired = fates.count("expired")
    counts = count(arrived(batch), assigned(batch, Store(), on_expired), on_expired, set_aside_before=0)
    assert counts == IngestCounts(
        received=len(batch),
        stored=fates.count("stored"),
        duplicates=fates.count("duplicate"),
        dead_lettered=fates.count("dead") + refused(fates) + (expired if on_expired == "DeadLetter" else 0),
        filtered=fates.count("unselected"),
        discarded=expired if on_expired == "Discard" else 0,
    )


def test_a_record_that_was_set_aside_before_counts_as_a_duplicate() -> None:
    batch = [Record("m1", "a", "dead"), Record("m2", "a", "dead"), Record("m3", "a")]
    counts = count(arrived(batch), assigned(batch, Store()), "DeadLetter", set_aside_before=1)
    assert counts == IngestCounts(received=3, stored=1, duplicates=1, dead_lettered=1)


def test_ids_whose_hashes_share_a_half_are_no_duplicates() -> None:
    batch = [Record("ab", "a"), Record("ba", "a"), Record("ab", "a")]
    assert len(set(keys_of(["ab", "ba"]).high.tolist())) == 1
    assert assigned(batch, Store()).duplicates.tolist() == [False, False, True]


def test_a_stored_id_is_a_duplicate_even_if_its_message_has_expired() -> None:
    given_out = assigned([Record("m1", "a", "expired")], Store(ids={"m1"}))
    assert given_out.duplicates.tolist() == [True]
    assert given_out.expired.tolist() == [False]


def test_an_expired_record_does_not_make_a_later_one_with_its_id_a_duplicate() -> None:
    given_out = assigned([Record("m1", "a", "expired"), Record("m1", "a")], Store())
    assert given_out.stored.tolist() == [False, True]
    assert given_out.position.tolist() == [-1, 0]


def test_positions_go_on_where_each_stream_is() -> None:
    store = Store(heads={"a": 7}, next_global=100)
    given_out = assigned([Record("m1", "b"), Record("m2", "a"), Record("m3", "b"), Record("m4", "a")], store)
    assert given_out.position.tolist() == [0, 7, 1, 8]
    assert given_out.global_position.tolist() == [100, 101, 102, 103]
    assert dict(zip(given_out.streams.to_pylist(), given_out.next_positions.tolist(), strict=True)) == {"a": 9, "b": 2}
    assert given_out.next_global == 104


def test_a_batch_without_records_changes_nothing() -> None:
    given_out = assigned([], Store(next_global=5))
    assert given_out.next_global == 5
    assert len(given_out.streams) == len(given_out.position) == 0


def test_an_expectation_that_holds_is_stored_and_one_that_does_not_takes_no_position() -> None:
    batch = [
        Record("m1", "a", expects=-1),
        Record("m2", "a", expects=0),
        Record("m3", "a", expects=0),
        Record("m4", "a", expects=2),
        Record("m5", "a"),
        Record("m6", "a", expects=2),
    ]
    given_out = assigned(batch, Store())
    assert given_out.position.tolist() == [0, 1, REFUSED, REFUSED, 2, 3]
    assert given_out.refused.details == (
        "Wrong expected version: 0 (Stream: a, Stream Version: 1)",
        "Wrong expected version: 2 (Stream: a, Stream Version: 1)",
    )


def test_a_duplicate_is_never_refused() -> None:
    given_out = assigned([Record("m1", "a", expects=-1), Record("m1", "a", expects=-1)], Store())
    assert given_out.duplicates.tolist() == [False, True]
    assert not len(given_out.refused.rows)


def test_a_refused_record_takes_no_position_and_its_id_stays_free() -> None:
    batch = [
        Record("m1", "a", expects=7),
        Record("m1", "b"),
        Record("m2", "b", expects=0),
        Record("m3", "b", expects=-1),
        Record("m3", "a", expects=-1),
    ]
    given_out = assigned(batch, Store())
    assert given_out.position.tolist() == [REFUSED, 0, 1, REFUSED, 0]


def test_a_record_that_was_refused_at_the_same_place_before_counts_as_a_duplicate() -> None:
    batch = [Record("m1", "a", expects=4), Record("m2", "a")]
    store = Store(heads={"a": 5})
    rows = replace(arrived(batch), refused_before=np.array([True, False]))
    given_out = assign(rows, lambda keys: np.zeros(len(keys), np.bool_), lambda _: np.array([5]), 9, "DeadLetter")
    assert assigned(batch, store).position.tolist() == [5, 6]
    assert given_out.position.tolist() == [-1, 5]
    assert count(rows, given_out, "DeadLetter", set_aside_before=0) == IngestCounts(received=2, stored=1, duplicates=1)


def test_a_record_that_an_earlier_try_of_the_batch_set_aside_counts_as_a_dead_letter() -> None:
    batch = [Record("m1", "a"), Record("m2", "a", expects=5), Record("m3", "a")]
    rows = replace(arrived(batch), set_aside=np.array([False, True, False]))
    given_out = assign(rows, lambda keys: np.zeros(len(keys), np.bool_), lambda _: np.array([5]), 9, "DeadLetter")
    assert assigned(batch, Store(heads={"a": 5})).position.tolist() == [5, 6, 7]
    assert given_out.position.tolist() == [5, -1, 6]
    counts = count(rows, given_out, "DeadLetter", set_aside_before=0)
    assert counts == IngestCounts(received=3, stored=2, dead_lettered=1)


def test_a_record_that_contradicts_the_size_of_its_sequence_is_refused() -> None:
    batch = [
        Record("m1", "a", sequence="s", number=1),
        Record("m2", "a", sequence="s", number=3, size=3),
        Record("m3", "a", sequence="s", number=2, size=4),
        Record("m4", "a", sequence="s", number=4),
        Record("m5", "a", sequence="t", number=5),
        Record("m6", "a", sequence="t", size=3),
        Record("m7", "a", sequence="s", number=2),
    ]
    given_out = assigned(batch, Store())
    assert given_out.position.tolist() == [0, 1, REFUSED, REFUSED, 2, REFUSED, 3]
    assert set(given_out.refused.reasons) == {"InvalidField"}
    assert given_out.refused.details == (
        "the size of sequence s is 4 by this record and 3 by an earlier one",
        "sequenceNumber 4 lies past the size of sequence s, 3 by an earlier record",
        "the size of sequence t is 3 by this record, and an earlier one has number 5",
    )


def test_a_size_is_known_over_batches() -> None:
    store = Store(sizes={"s": 2}, lasts={"s": 2})
    batch = [Record("m1", "a", sequence="s", number=2, size=3), Record("m2", "a", sequence="s", number=1, size=2)]
    assert assigned(batch, store).position.tolist() == [REFUSED, 0]


def test_a_stored_id_and_a_place_that_was_refused_before_are_both_duplicates() -> None:
    rows = replace(arrived([Record("m1", "a"), Record("m2", "a")]), refused_before=np.array([False, True]))
    given_out = assign(rows, lambda _: np.array([True, False]), lambda _: np.array([5]), 9, "DeadLetter")
    assert given_out.duplicates.tolist() == [True, True]
    assert not given_out.stored.any()


def test_unknown_fields_are_counted_in_what_is_stored_alone() -> None:
    batch = [Record("m1", "a"), Record("m1", "a"), Record("m2", "a")]
    rows = replace(arrived(batch), unknown=np.array([True, True, False]))
    counts = count(rows, assigned(batch, Store()), "DeadLetter", set_aside_before=0)
    assert counts == IngestCounts(received=3, stored=2, duplicates=1, unknown_fields=1)
