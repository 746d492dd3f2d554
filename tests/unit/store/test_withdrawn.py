"""What a batch that was never committed set aside is withdrawn: new dead letters go, redriven ones are as before."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from messagestore_core.store.batches import batch_id
from messagestore_core.store.claim_checks import withdraw_claim_checks
from messagestore_core.store.dead_letters import (
    set_aside,
    set_aside_again,
    set_aside_before,
    set_aside_new,
    source_positions_of,
    withdraw,
)
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.files import ReadFiles
from messagestore_core.store.layout import CLAIM_CHECKS
from messagestore_core.store.offsets import ReadOffsets
from messagestore_core.store.schemas import DEAD_LETTERS, FILES, OFFSETS
from support.stores import START, add_rows, make_store

Row = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> HeldStore:
    return HeldStore(make_store(tmp_path / "store", []).uri)


def letter(offset: int, reason: str, batch: str | None, **more: Any) -> Row:
    source = {"kind": "kafka", "uri": "kafka:orders", "partition": 0, **more, "offset": offset}
    return {"raw": b"%d" % offset, "source": source, "reason": reason, "failed_at": START, "batch": batch}


def letters(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=DEAD_LETTERS)


def rows(store: HeldStore, table: str = "dead_letters") -> list[Row]:
    found: list[Row] = store.table(table).to_pyarrow_table().to_pylist()
    return sorted(found, key=repr)


def test_new_dead_letters_go_and_those_of_other_batches_stay(store: HeldStore) -> None:
    other = letter(1, "MissingField", "own/10")
    set_aside(store, letters(letter(0, "MissingField", "own/1"), other, letter(2, "InvalidField", None)))
    set_aside(store, letters(letter(3, "MissingField", "own/1", uri="file:///a", partition=None)))
    withdraw(store, "own/1")
    assert [row["batch"] for row in rows(store)] == ["own/10", None]
    version = store.table("dead_letters").version()
    withdraw(store, "own/1")
    assert store.table("dead_letters").version() == version


def test_a_dead_letter_that_an_earlier_batch_set_aside_is_not_set_aside_again(store: HeldStore) -> None:
    set_aside(store, letters(letter(0, "MissingField", "own/1")))
    again = letters(letter(0, "MissingField", "own/2"), letter(1, "MissingField", "own/2"))
    assert set_aside_new(store, again, set_aside_before(store, {"kafka:orders"})) == ["own/1", None]
    assert [row["batch"] for row in rows(store)] == ["own/1", "own/2"]


def test_dead_letters_at_places_that_stay_are_left_alone(store: HeldStore) -> None:
    set_aside(store, letters(*(letter(n, "MissingField", "own/1") for n in range(3))))
    withdraw(store, "own/1", lambda place: place.offset == 1)
    assert [place.offset for place in source_positions_of(store, "own/1")] == [1]


def test_a_redriven_dead_letter_gets_back_each_refusal_before(store: HeldStore) -> None:
    set_aside(store, letters(letter(0, "MissingField", None)))
    tries = [rows(store)]
    for number, reason in enumerate(("InvalidField", "Unselected", "FilterError"), start=1):
        for _ in range(2):
            # A batch that is repeated is one try.
            set_aside_again(store, letters(letter(0, reason, batch_id("replay:again", number))))
        tries.append(rows(store))
    assert [row["tries"] for (row,) in tries] == [None, 2, 3, 4]
    for number in (3, 2, 1):
        withdraw(store, batch_id("replay:again", number))
        assert rows(store) == tries[number - 1]


def test_claim_checks_of_positions_that_no_message_has_go(store: HeldStore) -> None:
    claims = store.objects(CLAIM_CHECKS)
    names = [f"{position:020}{suffix}" for position in (9, 10, 11) for suffix in ("", "-0123456789abcdef")]
    for name in (*names, "README"):
        claims.write(name, b"")
    withdraw_claim_checks(store, 10)
    assert claims.names() == [*names[:2], "README"]


def planned(source: str, batch: int) -> Row:
    row = {"source_id": source, "batch": batch, "at": START, "start": 0, "end": 1, "latest": 1, "partition": 0}
    return row | {"uri": "file:///a", "size": 1, "modified_at": START, "topic": "orders", "topic_id": "t"}


@pytest.mark.parametrize(("read", "schema"), [(ReadFiles, FILES), (ReadOffsets, OFFSETS)])
def test_only_plans_of_sources_that_are_gone_are_forgotten(
    store: HeldStore, read: type[ReadFiles] | type[ReadOffsets], schema: pa.Schema
) -> None:
    table = "files" if read is ReadFiles else "offsets"
    plans = [planned(source, batch) for source in ("own", "updates", "before", "replay:again") for batch in (1, 2)]
    add_rows(store, table, pa.Table.from_pylist(plans, schema=schema))
    set_aside(
        store, letters(*(letter(n, "MissingField", f"{p['source_id']}/{p['batch']}") for n, p in enumerate(plans)))
    )
    known = read(store, "own")
    assert known.left_behind({"own", "updates"}) == {"before": 0}
    known.withdraw_left_behind({"own", "updates"})
    assert known.left_behind({"own", "updates"}) == read(store, "own").left_behind({"own", "updates"}) == {}
    left = [one for one in plans if one["source_id"] != "before"]
    assert {(row["source_id"], row["batch"]) for row in rows(store, table)} == {
        (one["source_id"], one["batch"]) for one in left
    }
    assert len(rows(store)) == len(left)
