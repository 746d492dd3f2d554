"""What of a purge needs no Spark."""

from datetime import timedelta

import pytest

from messagestore_core.contract.run_document import Archive, Hold, Match, PurgeTask, Rule
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.handle import Store
from messagestore_core.store.keyed import KEY_OBJECT, message_key
from messagestore_core.store.tombstones import (
    add_tombstones,
    erased_positions,
    open_erased,
    read_tombstone_keys,
    tombstone_key,
)
from messagestore_jobs.purge.rules import says_nothing
from messagestore_jobs.purge.selection import holds_digest, spec_digest

RULES = (Rule(name="old", max_age=timedelta(days=1)),)


def test_mode_and_approval_and_holds_are_no_part_of_what_is_asked_for() -> None:
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


def test_a_tombstone_is_keyed_and_written_once(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from support.stores import START, make_store

    table = make_store(tmp_path / "store", [])
    other = make_store(tmp_path / "other", [])
    for store in (table, table, other):
        add_tombstones(Store(store.uri), [("m1", 1), ("m2", 2), ("m1", 1)], START, "run")
    assert sorted(erased_positions(Store(table.uri))) == [1, 2]
    keys = [tombstone_key(Store(store.uri)) for store in (table, other)]
    assert None not in keys
    assert keys[0] != keys[1]
    assert read_tombstone_keys(Store(table.uri)) == {message_key(keys[0] or b"", name) for name in ("m1", "m2")}
    assert not read_tombstone_keys(Store(table.uri)) & read_tombstone_keys(Store(other.uri))


def test_tombstones_without_their_key_are_refused_and_no_other_key_is_made(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from support.stores import START, make_store

    table = make_store(tmp_path / "store", [])
    add_tombstones(Store(table.uri), [("m1", 1)], START, "run")
    (tmp_path / "store" / KEY_OBJECT).unlink()
    with pytest.raises(TableRefusedError, match=r"_tombstone_key is gone, .* which messages the 1 tombstones"):
        open_erased(Store(table.uri))
    with pytest.raises(TableRefusedError, match="Restore the object from a backup"):
        add_tombstones(Store(table.uri), [("m2", 2)], START, "run")
    assert not (tmp_path / "store" / KEY_OBJECT).exists()
