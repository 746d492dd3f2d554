"""The parts of a purge that need no Spark."""

from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from messagestore_core.contract.purge import Archive, Hold, Match, PurgeTask, Rule
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.layout import TOMBSTONE_KEY
from messagestore_core.store.schemas import TOMBSTONES
from messagestore_core.store.tombstones import (
    add_tombstones,
    erased_positions,
    message_key,
    open_erased,
    tombstone_key,
    withdraw_tombstones,
)
from messagestore_jobs.purge.rules import says_nothing
from messagestore_jobs.purge.selection import holds_digest, spec_digest
from support.stores import START, make_store

RULES = (Rule(name="old", max_age=timedelta(days=1)),)


def test_mode_approval_and_holds_do_not_change_the_digest_of_a_purge() -> None:
    plain = PurgeTask(rules=RULES)
    same = PurgeTask(
        rules=RULES,
        mode="Enforce",
        approval_required=True,
        approved_preview="x",
        holds=(Hold(name="h", match=Match()),),
    )
    assert spec_digest(plain) == spec_digest(same)
    assert holds_digest(plain) != holds_digest(same)
    assert spec_digest(plain) != spec_digest(PurgeTask(rules=RULES, archive=Archive(uri="file:///a")))
    assert spec_digest(plain) != spec_digest(PurgeTask(rules=RULES, erase_within=timedelta(0)))


def test_a_rule_without_a_condition_says_nothing() -> None:
    assert says_nothing(Rule(name="a"))
    assert says_nothing(Rule(name="a", erase=True, match=Match()))
    assert not says_nothing(Rule(name="a", max_messages_per_stream=0))
    assert not says_nothing(Rule(name="a", match=Match(types=("x",))))


def test_a_tombstone_is_keyed_and_written_once(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    other = make_store(tmp_path / "other", [])
    for store in (table, table, other):
        add_tombstones(HeldStore(store.uri), [("m1", 1), ("m2", 2), ("m1", 1)], START, "run")
    assert sorted(erased_positions(HeldStore(table.uri))) == [1, 2]
    keys = [tombstone_key(HeldStore(store.uri)) for store in (table, other)]
    assert None not in keys
    assert keys[0] != keys[1]
    erased, others = open_erased(HeldStore(table.uri)), open_erased(HeldStore(other.uri))
    assert erased.contains(pa.array(["m1", "m3", None, "m2"])).tolist() == [True, False, False, True]
    assert erased.hashes(32) == b"".join(sorted(bytes.fromhex(message_key(keys[0] or b"", n)) for n in ("m1", "m2")))
    assert not {erased.hashes(32)[i:][:32] for i in (0, 32)} & {others.hashes(32)[i:][:32] for i in (0, 32)}


def test_one_of_two_messages_with_one_id_is_erased(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    add_tombstones(HeldStore(table.uri), [("m1", 1), ("m1", 7), ("m2", 2)], START, "run")
    erased = open_erased(HeldStore(table.uri))
    ids = pa.array(["m1", "m1", "m1", "m2", "m3", None, "m1", "m3"])
    positions = pa.array([1, 7, 5, 2, 1, 1, None, None])
    assert erased.contains_messages(ids, positions).tolist() == [True, True, False, True, False, False, True, False]
    assert len(erased) == 2


def test_a_tombstone_without_a_position_counts_for_the_id(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    add_tombstones(HeldStore(table.uri), [("m1", 1), ("m2", 2)], START, "run")
    HeldStore(table.uri).table("tombstones").update({"global_position": "NULL"}, predicate="global_position = 1")
    erased = open_erased(HeldStore(table.uri))
    assert erased.contains_messages(pa.array(["m1", "m2", "m2"]), pa.array([9, 9, 2])).tolist() == [True, False, True]


def test_a_tombstone_is_withdrawn_for_one_message_and_may_be_written_again(tmp_path: Path) -> None:
    store = HeldStore(make_store(tmp_path / "store", []).uri)
    add_tombstones(store, [("m1", 1), ("m1", 7), ("m2", 2)], START, "run")
    for _ in range(2):
        withdraw_tombstones(store, pa.chunked_array([[7, 9]], pa.int64()))
        assert sorted(erased_positions(store)) == [1, 2]
    version = store.table("tombstones").version()
    withdraw_tombstones(store, pa.array([7, 9], pa.int64()))
    assert store.table("tombstones").version() == version
    assert open_erased(store, before=2).contains(pa.array(["m1", "m2"])).tolist() == [True, False]
    add_tombstones(store, [("m1", 7)], START, "run")
    assert sorted(erased_positions(store)) == [1, 2, 7]


@pytest.mark.parametrize("key", ["", "7f", "g" * 64, "A" * 64, "7f" * 33])
def test_a_tombstone_that_is_no_keyed_hash_is_refused(tmp_path: Path, key: str) -> None:
    table = make_store(tmp_path / "store", [])
    add_tombstones(HeldStore(table.uri), [("m1", 1)], START, "run")
    row = {"message_key": key, "erased_at": START, "run": "run", "global_position": 2}
    write_deltalake(f"{table.uri}/tombstones", pa.Table.from_pylist([row], schema=TOMBSTONES), mode="append")
    with pytest.raises(TableRefusedError, match="tombstones has a message_key that is no keyed hash: restore it"):
        open_erased(HeldStore(table.uri))


def test_tombstones_without_their_key_are_refused_and_no_other_key_is_made(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    add_tombstones(HeldStore(table.uri), [("m1", 1)], START, "run")
    (tmp_path / "store" / TOMBSTONE_KEY).unlink()
    with pytest.raises(TableRefusedError, match=r"_tombstone_key is gone, .* which messages the 1 tombstones"):
        open_erased(HeldStore(table.uri))
    with pytest.raises(TableRefusedError, match="Restore the object from a backup"):
        add_tombstones(HeldStore(table.uri), [("m2", 2)], START, "run")
    assert not (tmp_path / "store" / TOMBSTONE_KEY).exists()
