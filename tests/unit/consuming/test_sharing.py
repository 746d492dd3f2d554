"""Consumers of one name share the slots."""

import shutil
from pathlib import Path

import pytest

from messagestore.consuming import reset
from messagestore.consuming.leases import share
from messagestore.consuming.source import slot_of
from messagestore.errors import ConsumerStateError, StorageError
from messagestore.names import cardinal_id, hash_64
from messagestore_core.store.objects import Objects
from support.consumers import Clock, Faults, FaultyCursors, commit, consumer, received, rows
from support.stores import make_store

LOOK = 11
"""Seconds until each consumer looks again who is there."""


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return make_store(tmp_path / "store", rows(range(1, 25), streams=12)).uri


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_slots_are_given_out_evenly_and_wholly() -> None:
    assert [share(64, "abc", one) for one in "abc"] == [22, 21, 21]
    assert share(2, "abc", "c") == 0
    assert share(64, [], "a") == 64


def test_streams_of_one_cardinal_id_have_one_slot() -> None:
    assert slot_of("order-7", 64) == slot_of("cart-7+3", 64) == abs(hash_64(cardinal_id("order-7")) or 0) % 64
    assert {slot_of(f"order-{number}", 8) for number in range(100)} == set(range(8))
    assert slot_of("order", 64) == slot_of("order", 64)


def test_two_consumers_share_the_streams_and_no_stream_goes_to_both(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one, consumer(uri, clock) as two:
        assert len(received(one, 1)) == 1
        assert received(two) == []
        clock.pass_by(LOOK)
        first = [1, *received(one)]
        second = received(two)
        clock.pass_by(LOOK)
        first += received(one)
        second += received(two)
        assert sorted(first + second) == [*range(1, 25)]
        # The first one came before the other consumer had slots.
        assert not {number % 12 for number in first[1:]} & {number % 12 for number in second}
        assert first
        assert second


def test_slots_of_a_dead_consumer_are_taken_when_its_lease_ends(uri: str, clock: Clock) -> None:
    dead = consumer(uri, clock)
    assert len(received(dead, 5)) == 5
    with consumer(uri, clock) as another:
        assert received(another) == []
        clock.pass_by(59)
        assert received(another) == []
        clock.pass_by(LOOK)
        assert received(another) == [*range(1, 25)]


def test_a_consumer_that_closes_gives_its_slots_back_at_once(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        received(one, 5)
    with consumer(uri, clock) as another:
        assert received(another) == [*range(6, 25)]


def test_a_stalled_consumer_that_comes_back_is_refused(uri: str, clock: Clock) -> None:
    stalled = consumer(uri, clock)
    assert received(stalled, 3) == [1, 2, 3]
    clock.pass_by(61)
    with consumer(uri, clock) as another:
        assert received(another) == [*range(1, 25)]
        assert received(stalled) == []
        commit(uri, [25, 26])
        clock.pass_by(LOOK)
        assert sorted(received(another) + received(stalled) + received(another)) == [25, 26]


def test_a_consumer_whose_lease_ended_continues_if_no_other_took_its_slots(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        assert received(one, 3) == [1, 2, 3]
        clock.pass_by(1000)
        assert received(one) == [*range(4, 25)]


def test_more_consumers_than_slots_wait_for_one(uri: str, clock: Clock) -> None:
    many = [consumer(uri, clock, slots=2) for _ in range(4)]
    got = list[int]()
    for _ in range(3):
        for one in many:
            got += received(one)
        clock.pass_by(LOOK)
    assert sorted(got) == [*range(1, 25)]
    for one in many:
        one.close()


def test_consumers_of_different_names_are_independent(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one, consumer(uri, clock, "audit") as other:
        assert received(one) == received(other) == [*range(1, 25)]


def test_a_write_whose_answer_was_lost_is_recognised(uri: str, clock: Clock, tmp_path: Path) -> None:
    faults = Faults()
    with consumer(uri, clock, state=FaultyCursors(f"{tmp_path}/state", faults), batch_size=3) as one:
        assert received(one, 2) == [1, 2]
        faults.plan = "l" * 100
        assert received(one) == [*range(3, 25)]
    assert faults.plan < "l" * 100
    with consumer(uri, clock, state=FaultyCursors(f"{tmp_path}/state", Faults())) as another:
        assert received(another) == []


def test_a_write_that_failed_is_told_and_nothing_is_skipped(uri: str, clock: Clock, tmp_path: Path) -> None:
    faults = Faults()
    one = consumer(uri, clock, state=FaultyCursors(f"{tmp_path}/state", faults), batch_size=3)
    assert received(one, 2) == [1, 2]
    faults.plan = "f" * 100
    with pytest.raises(StorageError, match="no answer"):
        received(one)
    faults.plan = ""
    rest = received(one)
    assert rest == [*range(rest[0], 25)]
    assert rest[0] <= 4


def test_a_consumer_whose_state_was_deleted_ends(uri: str, clock: Clock, tmp_path: Path) -> None:
    one = consumer(uri, clock)
    received(one)
    (tmp_path / "store/_consumers/billing/consumer.json").unlink()
    clock.pass_by(LOOK)
    with pytest.raises(ConsumerStateError, match="deleted"):
        received(one)


def test_a_consumer_whose_state_was_made_anew_with_other_slots_ends(uri: str, clock: Clock, tmp_path: Path) -> None:
    one = consumer(uri, clock, slots=4)
    assert received(one, 3) == [1, 2, 3]
    shutil.rmtree(tmp_path / "store/_consumers/billing")
    with consumer(uri, clock, slots=8) as another:
        clock.pass_by(LOOK)
        with pytest.raises(ConsumerStateError, match="made anew with 8 slots while it ran; begin again"):
            received(one)
        assert received(another) == [*range(1, 25)]


def test_a_consumer_that_stalled_while_its_cursors_were_reset_goes_on_where_they_are(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        assert received(one) == [*range(1, 25)]
        clock.pass_by(61)
        reset(uri, "billing", 20)
        assert received(one) == [*range(20, 25)]


def test_a_dead_consumer_that_another_one_forgets_at_the_same_moment_is_forgotten(
    uri: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    received(consumer(uri, clock))
    clock.pass_by(12 * 60)
    with consumer(uri, clock) as one:
        exists = Objects.exists

        def deleted_right_after(self: Objects, name: str) -> bool:
            there = exists(self, name)
            if there and name.startswith("member-"):
                Path(self.local_path(name) or "").unlink()
            return there

        monkeypatch.setattr(Objects, "exists", deleted_right_after)
        assert received(one) == []
        monkeypatch.undo()
