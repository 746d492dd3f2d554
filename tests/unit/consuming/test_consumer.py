"""A consumer of a store: what it handles, in which order, and what of it after errors and restarts."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from types import FrameType
from typing import Any

import pytest

from messagestore import consuming
from messagestore.consuming import Consumer, feed
from messagestore.consuming.source import Placed, Source
from messagestore.errors import (
    ArgumentError,
    BrokenMessageError,
    ConsumerStateError,
    CursorAheadError,
    StorageError,
    StoreNotFoundError,
)
from messagestore.message import Message
from messagestore.records import Record
from messagestore.writer import Writer
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.consumers import Slot
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.layout import CONSUMERS, is_run_state
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.purge.remains import forget_past
from support.consumers import LEASE, Clock, commit, consumer, received, rows
from support.stores import add_messages, make_store, message, remove_rows


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return make_store(tmp_path / "store", rows(range(1, 10)), rows(range(10, 13))).uri


@pytest.fixture
def clock() -> Clock:
    return Clock()


def cursors(tmp_path: Path) -> list[int]:
    files = (tmp_path / "store" / CONSUMERS / "billing").glob("slot-*.json")
    return [Slot.model_validate_json(file.read_text()).global_position for file in sorted(files)]


def test_all_messages_are_handled_in_order_and_later_ones_by_the_next_consumer(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        assert received(one) == [*range(1, 13)]
    commit(uri, [13, 14])
    with consumer(uri, clock) as another:
        assert received(another) == [13, 14]


def test_a_message_goes_to_the_handler_of_its_type_else_to_the_general_one_else_is_skipped(
    uri: str, clock: Clock
) -> None:
    add_messages(uri, [message(13, type="Placed"), message(14, type="Paid"), message(15, type=None)])
    got: list[tuple[str, int]] = []
    with consumer(uri, clock, start=13) as one:
        one.on("Placed")(lambda placed: got.append(("placed", placed.global_position)))

        @one.on("Paid")
        def paid(message: Message) -> None:
            got.append(("paid", message.global_position))
            one.stop()

        one.run()
    with consumer(uri, clock, "audit", start=13) as other:

        @other.on()
        def every(message: Message) -> None:
            got.append(("every", message.global_position))
            if message.global_position == 15:
                other.stop()

        other.run()
    assert got == [("placed", 13), ("paid", 14), ("every", 13), ("every", 14), ("every", 15)]


def test_a_cursor_also_passes_messages_that_category_or_condition_leave_out(
    uri: str, clock: Clock, tmp_path: Path
) -> None:
    add_messages(uri, [message(13, stream_name="cart-1"), message(14, stream_name="cart-2", type="Paid")])
    with consumer(uri, clock, category="cart", where="type = 'Paid'") as one:
        assert received(one) == [14]
    assert min(cursors(tmp_path)) == 14


@pytest.mark.parametrize(("start", "first"), [("Beginning", 1), (5, 5), ("Now", 13), (100, None)])
def test_a_start_counts_only_for_the_first_consumer_of_a_name(
    uri: str, clock: Clock, start: int, first: int | None
) -> None:
    with consumer(uri, clock, start=start):
        pass
    commit(uri, [13])
    with consumer(uri, clock, start="Now") as one:
        assert received(one) == ([] if first is None else [*range(first, 14)])


def test_a_start_that_is_no_position_is_refused(uri: str, clock: Clock) -> None:
    for start in (True, 1.0, "beginning", None):
        with pytest.raises(ArgumentError, match="is neither Beginning, Now nor a global position"):
            consumer(uri, clock, start=start)


def test_a_start_at_now_lies_after_purged_messages_too(uri: str, clock: Clock) -> None:
    remove_rows(uri, "messages", "global_position > 7")
    with consumer(uri, clock, start="Now"):
        pass
    commit(uri, [13])
    with consumer(uri, clock) as one:
        assert received(one) == [13]


def test_a_message_counts_as_handled_once_the_next_one_is_received(uri: str, clock: Clock) -> None:
    class BrokenError(Exception):
        pass

    def fail_at_the_third() -> None:
        with consumer(uri, clock) as one:
            assert received(one, 3) == [1, 2, 3]
            raise BrokenError

    with pytest.raises(BrokenError):
        fail_at_the_third()
    with consumer(uri, clock) as another:
        assert received(another)[0] == 3


def test_after_a_kill_at_most_a_batch_is_handled_again(uri: str, clock: Clock) -> None:
    killed = consumer(uri, clock, batch_size=4)
    assert received(killed, 7) == [*range(1, 8)]
    with consumer(uri, clock) as another:
        assert received(another) == []
        clock.pass_by(61)
        assert received(another) == [*range(5, 13)]


def test_a_cursor_moves_by_one_write_a_batch(uri: str, clock: Clock, tmp_path: Path) -> None:
    with consumer(uri, clock, slots=1, batch_size=5) as one:
        received(one, 6)
        assert cursors(tmp_path) == [5]
        assert received(one, 4) == [7, 8, 9, 10]
        assert cursors(tmp_path) == [5]
        assert received(one, 2) == [11, 12]
        assert cursors(tmp_path) == [10]
        assert received(one) == []
        assert cursors(tmp_path) == [12]


def test_an_idle_consumer_writes_its_slots_no_more_often_than_every_half_lease(
    uri: str, clock: Clock, tmp_path: Path
) -> None:
    def written() -> list[int]:
        return [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("slot-*"))]

    with consumer(uri, clock, slots=2) as one:
        received(one)
        before = written()
        clock.pass_by(11)
        assert received(one) == []
        assert before == written() != []
        clock.pass_by(20)
        assert received(one) == []
        assert before != written()


def test_a_waiting_consumer_receives_a_message_within_a_second_of_its_commit(uri: str) -> None:
    with Consumer(uri, "billing", start="Now", slots=4) as one:
        assert one.receive_nowait() is None
        committed = list[float]()

        def commit_later() -> None:
            sleep(0.3)
            commit(uri, [13])
            committed.append(monotonic())

        thread = threading.Thread(target=commit_later)
        thread.start()
        got = one.receive(timeout=20)
        at = monotonic()
        thread.join()
    assert got.global_position == 13
    assert at - committed[0] < 5, "far more than a second, for machines under load"


def test_receive_waits_for_its_timeout_and_ends_on_stop(uri: str) -> None:
    with Consumer(uri, "billing", start="Now", slots=4) as one:
        begun = monotonic()
        assert one.receive(timeout=0.2) is None
        assert 0.2 <= monotonic() - begun < 5
        threading.Timer(0.1, one.stop).start()
        assert one.receive() is None


def test_a_signal_stops_a_consumer_whatever_it_is_doing(uri: str) -> None:
    """A handler of signals runs between any two steps of the main thread, whose locks it can't wait for."""

    def stopped(one: Consumer, after: int) -> bool:
        """Whether it ends that is stopped after so many of its steps; if it ends before, as it has no more."""
        steps = 0

        def step(frame: FrameType, event: str, _: object) -> Any:
            nonlocal steps
            if frame.f_code.co_filename not in (consuming.consumer.__file__, threading.__file__):
                return None
            steps += 1
            if steps == after:
                one.stop()
            return step

        def receive() -> None:
            sys.settrace(step)
            one.receive(timeout=0.01)

        thread = threading.Thread(target=receive, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive(), f"stopped after {after} steps"
        return steps >= after

    after = 1
    while True:
        with Consumer(uri, "billing", start="Now", slots=1) as one:
            if not stopped(one, after):
                break
        after += 1
    assert after > 10


def test_a_message_that_fails_is_tried_again_while_its_stream_waits_and_others_go_on(uri: str, clock: Clock) -> None:
    got, failures = list[int](), [4, 4, 7]
    with consumer(uri, clock) as one:

        @one.on()
        def handle(message: Message) -> None:
            clock.step = 0.3
            if failures and message.global_position == failures[0]:
                failures.pop(0)
                raise ValueError("not now")
            got.append(message.global_position)
            if len(got) == 12:
                one.stop()

        one.run()
    assert sorted(got) == [*range(1, 13)]
    for stream in range(3):
        own = [number for number in got if number % 3 == stream]
        assert own == sorted(own)
    assert got.index(6) < got.index(4), "other streams go on"


def test_a_message_that_waits_for_a_retry_and_those_after_it_go_to_the_next_consumer(uri: str, clock: Clock) -> None:
    with consumer(uri, clock, slots=1) as one:

        @one.on()
        def handle(message: Message) -> None:
            if message.global_position == 12:
                one.stop()
            if message.global_position == 4:
                raise ValueError

        one.run()
    with consumer(uri, clock, slots=1) as another:
        assert received(another) == [*range(4, 13)]


def test_a_slot_pauses_while_its_stream_waits_for_long_and_then_continues_where_it_was(
    uri: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "PAUSED_AFTER", 10)
    commit(uri, range(13, 31))
    got, broken = list[int](), [True]
    with consumer(uri, clock, slots=1) as one:

        @one.on()
        def handle(message: Message) -> None:
            if broken[0] and message.global_position == 1:
                # While the slot waits, only this message is tried.
                clock.step = 0.7
                broken[0] = len(got) < 6
                assert len(got) < 10
                raise ValueError
            got.append(message.global_position)
            if len(got) == 30:
                one.stop()

        one.run()
    assert sorted(got) == [*range(1, 31)]
    for stream in range(3):
        own = [number for number in got if number % 3 == stream]
        assert own == sorted(own)


def test_a_parked_message_is_reported_before_its_cursor_moves(uri: str, clock: Clock, tmp_path: Path) -> None:
    add_messages(uri, [message(13, stream_name="order-1", headers={"x-attempt": "3"})])
    updates = tmp_path / "updates"
    with (
        Writer(f"file://{tmp_path}/landing", lifecycle=f"file://{updates}") as writer,
        consumer(uri, clock, on_error="Park", writer=writer) as one,
    ):

        @one.on()
        def handle(message: Message) -> None:
            if message.global_position == 13:
                one.stop()
            if message.global_position in (4, 13):
                raise ValueError("no such account")

        one.run()
        one.close()
        lines = [json.loads(line) for file in sorted(updates.iterdir()) for line in file.read_text().splitlines()]
    assert [(line["messageId"], line["status"], line["error"], line["attempt"]) for line in lines] == [
        ("m4", "FAILED", "ValueError: no such account", 1),
        ("m13", "FAILED", "ValueError: no such account", 3),
    ]
    assert min(cursors(tmp_path)) == 13


def test_a_report_that_was_refused_is_written_before_its_cursor_moves(uri: str, clock: Clock, tmp_path: Path) -> None:
    class Refusing:
        def __init__(self) -> None:
            self.answers, self.lines = ["no"], list[bytes]()

        def write(self, records: Sequence[Record]) -> None:
            if self.answers:
                raise StorageError(self.answers.pop())
            self.lines += [record.line for record in records]

        def close(self) -> None:
            pass

    updates = Refusing()
    writer = Writer(f"file://{tmp_path}/landing", lifecycle=updates, batch_records=1)
    with consumer(uri, clock, on_error="Park", writer=writer) as one:

        @one.on()
        def handle(message: Message) -> None:
            if message.global_position == 4:
                raise ValueError("no such account")
            if message.global_position == 12:
                one.stop()

        with pytest.raises(StorageError, match="no"):
            one.run()
        one.run()
    assert min(cursors(tmp_path)) == 12
    assert [json.loads(line)["messageId"] for line in updates.lines] == ["m4"]


@pytest.mark.parametrize(("attempt", "counted"), [("0", 1), ("1000000", 10**6), ("1000001", 1), ("+2", 1)])
def test_a_message_is_parked_whatever_its_error_and_its_header_say(
    uri: str, clock: Clock, tmp_path: Path, attempt: str, counted: int
) -> None:
    add_messages(uri, [message(13, headers={"x-attempt": attempt})])
    with (
        Writer(f"file://{tmp_path}/landing", lifecycle=f"file://{tmp_path}/updates") as writer,
        consumer(uri, clock, on_error="Park", writer=writer, start=13) as one,
    ):

        @one.on()
        def handle(message: Message) -> None:
            one.stop()
            raise OSError("no file caf\udce9.csv")

        one.run()
        one.close()
    (file,) = (tmp_path / "updates").iterdir()
    told = json.loads(file.read_text())
    assert (told["error"], told["attempt"]) == ("OSError: no file caf\\udce9.csv", counted)
    assert min(cursors(tmp_path)) == 13


def test_a_message_that_was_erased_meanwhile_is_not_handed_out(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        assert received(one, 4) == [1, 2, 3, 4]
        # They are read already; first come the tombstones.
        add_tombstones(HeldStore(uri), [("m6", 6), ("m9", 9)], datetime.now(UTC), "erasure")
        clock.pass_by(1)
        assert received(one) == [5, 7, 8, 10, 11, 12]


def test_a_message_that_waits_and_is_erased_is_not_tried_again(uri: str, clock: Clock) -> None:
    got = list[int]()
    with consumer(uri, clock) as one:

        @one.on()
        def handle(message: Message) -> None:
            got.append(message.global_position)
            if message.global_position == 4:
                add_tombstones(HeldStore(uri), [("m4", 4)], datetime.now(UTC), "erasure")
                raise ValueError
            if message.global_position == 12:
                clock.pass_by(5)
                one.stop()

        one.run()
        assert one.receive_nowait() is None
    assert got.count(4) == 1
    with consumer(uri, clock) as another:
        assert received(another) in ([], [7, 10], [7, 10, 8, 11])


def test_a_consumer_goes_on_after_an_erasure_that_it_did_not_see(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        assert received(one) == [*range(1, 13)]
        remove_rows(uri, "messages", "global_position = 3")
        forget_past(HeldStore(uri), "messages", last_note(HeldStore(uri)))
        commit(uri, [13])
        clock.pass_by(11)
        assert received(one) == [13]


def test_a_commit_behind_an_erasure_is_seen_within_a_few_looks(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        assert received(one) == [*range(1, 13)]
        for _ in range(2):
            forget_past(HeldStore(uri), "messages", last_note(HeldStore(uri)))
        commit(uri, [13])
        assert [position for _ in range(5) for position in received(one)] == [13]


def test_erased_messages_are_left_out_after_an_erasure_that_a_consumer_did_not_see(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        assert received(one, 4) == [1, 2, 3, 4]
        for _ in range(2):
            forget_past(HeldStore(uri), "tombstones", None)
        clock.pass_by(11)
        assert received(one, 1) == [5]
        add_tombstones(HeldStore(uri), [("m7", 7), ("m9", 9)], datetime.now(UTC), "erasure")
        clock.pass_by(1)
        assert received(one) == [6, 8, 10, 11, 12]


def test_a_message_of_an_erasure_between_two_looks_is_not_handed_out(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        assert received(one, 4) == [1, 2, 3, 4]
        add_tombstones(HeldStore(uri), [("m6", 6), ("m9", 9)], datetime.now(UTC), "erasure")
        # The erasure ends with a log that has nothing of before.
        for _ in range(2):
            forget_past(HeldStore(uri), "tombstones", None)
        clock.pass_by(1)
        assert received(one) == [5, 7, 8, 10, 11, 12]


def test_a_message_that_waits_is_not_passed_when_the_store_is_opened_again(
    uri: str, clock: Clock, tmp_path: Path
) -> None:
    got = list[int]()
    with consumer(uri, clock, slots=1) as one:

        @one.on()
        def handle(message: Message) -> None:
            got.append(message.global_position)
            if message.global_position == 4:
                if got.count(4) == 2:
                    remove_rows(uri, "messages", "global_position = 1")
                    forget_past(HeldStore(uri), "messages", last_note(HeldStore(uri)))
                    # The consumer looks whether the store is the same, and not yet at the tombstones.
                    clock.pass_by(0.6)
                raise ValueError
            if message.global_position == 12:
                clock.pass_by(9.5)
                if got.count(12) == 2:
                    one.stop()

        one.run()
    assert cursors(tmp_path) == [3]


def test_an_erasure_while_messages_are_read_costs_a_second_read(
    uri: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind, lost = Source.behind, [True]

    def loses_files(self: Source, *given: Any) -> Iterator[list[Placed]]:
        for part in behind(self, *given):
            yield part[:4]
            if lost:
                lost.clear()
                raise StorageError("a file is gone")
            yield part[4:]

    monkeypatch.setattr(Source, "behind", loses_files)
    with consumer(uri, clock) as one:
        assert received(one) == [*range(1, 13)]


def test_a_store_that_was_restored_to_a_point_before_its_cursor_is_reported(
    uri: str, clock: Clock, tmp_path: Path
) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    shutil.copytree(store, copy)
    commit(uri, [13, 14])
    with consumer(uri, clock) as one:
        received(one)
    state = tmp_path / "state"
    shutil.move(store / CONSUMERS, state)
    shutil.rmtree(store)
    shutil.copytree(copy, store)
    shutil.move(state, store / CONSUMERS)
    with (
        consumer(uri, clock) as another,
        pytest.raises(CursorAheadError, match=r"is at 14, and the last .* is 12.*messagestore consumers reset"),
    ):
        another.receive_nowait()


def test_a_store_that_is_restored_while_it_is_consumed_is_reported(uri: str, clock: Clock, tmp_path: Path) -> None:
    store, copy = tmp_path / "store", tmp_path / "copy"
    shutil.copytree(store, copy)
    commit(uri, [13, 14])
    with consumer(uri, clock, state=str(tmp_path / "state")) as one:
        received(one)
        for _ in range(3):
            clock.pass_by(LEASE.total_seconds() / 5)
            assert received(one) == []
        shutil.rmtree(store)
        shutil.copytree(copy, store)
        # The first look only sees which commit is there; it is another one by the next.
        clock.pass_by(LEASE.total_seconds() / 5)
        with pytest.raises(CursorAheadError):
            received(one)


def test_a_store_that_was_made_again_is_consumed_from_its_start(uri: str, clock: Clock, tmp_path: Path) -> None:
    with consumer(uri, clock, state=str(tmp_path / "state")) as one:
        received(one)
    shutil.rmtree(tmp_path / "store")
    make_store(tmp_path / "store", rows([1, 2]))
    with consumer(uri, clock, state=str(tmp_path / "state")) as another:
        assert received(another) == [1, 2]


def test_a_purge_of_the_newest_messages_is_not_taken_for_a_restore(uri: str, clock: Clock) -> None:
    commit(uri, [13, 14])
    with consumer(uri, clock) as one:
        received(one)
    remove_rows(uri, "messages", "global_position > 3")
    with consumer(uri, clock) as another:
        assert received(another) == []
        commit(uri, [15])
        assert received(another) == [15]


def test_a_broken_message_ends_the_consumer_unless_the_caller_handles_it(uri: str, clock: Clock) -> None:
    add_messages(uri, [message(13, payload_sha256="0" * 64), message(14)])
    with consumer(uri, clock, start=13) as one, pytest.raises(BrokenMessageError):
        received(one)
    broken = list[int]()
    with consumer(uri, clock, start=13, on_broken=lambda error: broken.append(error.global_position)) as another:
        assert received(another) == [14]
    assert broken == [13]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "Billing"}, "small letters"),
        ({"name": "../x"}, "small letters"),
        ({"category": "order-1"}, "Must be a category"),
        ({"where": "nothing = 1"}, "where"),
        ({"start": "Yesterday"}, "neither Beginning"),
        ({"start": 0}, "no global position"),
        ({"slots": 0}, "slots must be"),
        ({"slots": 5000}, "slots must be"),
        ({"lease": timedelta(milliseconds=3)}, "at least a second"),
        ({"lease": timedelta.max}, "at most a year"),
        ({"lease": 60}, "lease is 60; give a timedelta"),
        ({"max_backoff": 60}, "max_backoff is 60; give a timedelta"),
        ({"batch_size": 0}, "batch_size"),
        ({"on_error": "Skip"}, "neither Block nor Park"),
        ({"on_error": "Park"}, "needs a writer with lifecycle="),
    ],
)
def test_wrong_arguments_are_refused_with_words(uri: str, clock: Clock, given: dict[str, object], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        consumer(uri, clock, **given)


def test_a_run_without_handlers_and_a_batch_without_a_database_are_refused(uri: str, clock: Clock) -> None:
    with consumer(uri, clock) as one:
        with pytest.raises(ArgumentError, match="declare a handler"):
            one.run()
        with pytest.raises(ArgumentError, match="PostgresCursors"):
            one.batch()


def test_a_folder_without_a_store_is_refused(tmp_path: Path, clock: Clock) -> None:
    with pytest.raises(StoreNotFoundError):
        consumer(f"file://{tmp_path}/nothing", clock)


def test_a_consumer_with_another_number_of_slots_is_refused(uri: str, clock: Clock) -> None:
    with consumer(uri, clock):
        pass
    with pytest.raises(ConsumerStateError, match="has 4 slots, not 8"):
        consumer(uri, clock, slots=8)


def test_a_consumer_that_is_refused_trusts_no_authority_any_more(
    uri: str, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    (tmp_path / "ca.pem").write_text("an authority")
    storage = [StorageEntry(bucket="lake", ca_file=str(tmp_path / "ca.pem"))]
    with consumer(uri, clock, storage=storage):
        assert "SSL_CERT_FILE" in os.environ
    with pytest.raises(ConsumerStateError) as refused:
        consumer(uri, clock, slots=8, storage=storage)
    with pytest.raises(StoreNotFoundError) as missing:
        consumer(f"file://{tmp_path}/nothing", clock, storage=storage)
    # The errors hold what was opened, which nobody has collected.
    assert "SSL_CERT_FILE" not in os.environ, (refused, missing)


def test_a_file_that_is_no_consumer_state_is_refused(uri: str, clock: Clock, tmp_path: Path) -> None:
    with consumer(uri, clock):
        pass
    folder = tmp_path / "store" / CONSUMERS / "billing"
    (folder / "slot-0001.json").write_text("{}")
    with consumer(uri, clock) as one, pytest.raises(ConsumerStateError, match=r"slot-0001\.json .* restore it"):
        one.receive_nowait()


def test_runs_know_each_file_of_consumer_state(uri: str, clock: Clock, tmp_path: Path) -> None:
    one = consumer(uri, clock)
    received(one)
    store = tmp_path / "store"
    names = [str(path.relative_to(store)) for path in (store / CONSUMERS).rglob("*") if path.is_file()]
    assert len(names) == 6
    assert all(map(is_run_state, names))
    one.close()
