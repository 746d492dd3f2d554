"""A chunk's objects are renamed in parallel: object storage copies each."""

import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.cursors import Cursor
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Chunk, Part
from messagestore_jobs.replay.chunks import StagedObjects
from messagestore_jobs.replay.files import FilesDelivery
from messagestore_jobs.replay.rounds import FilesRound
from support.external_writes import observing
from support.replays import Crash, replay_document

COUNT = 40
NO_SPARK: Any = None


def delivery_to(folder: Path) -> FilesDelivery:
    destination = FilesDestination(uri=str(folder), format="JSONLines")
    table = Table(uri="file:///nowhere", owner=Owner(namespace="default", name="orders"))
    task = ReplayTask(job_id="job-1", destination=destination)
    return FilesDelivery(Run.of(replay_document(table, task), NO_SPARK, Silent()), task.job_id, destination)


def round_to(folder: Path, number: int) -> FilesRound:
    """A subscription's round to a folder."""
    destination, job = FilesDestination(uri=str(folder), format="JSONLines"), f"shop.relay_audit_{number}"
    table = Table(uri=f"file://{folder}-store", owner=Owner(namespace="default", name="orders"))
    run = Run.of(replay_document(table, ReplayTask(job_id=job, destination=destination)), NO_SPARK, Silent())
    before = Cursor(
        store="s",
        subscription="shop/relay",
        destination="audit",
        global_position=0,
        rounds=number - 1,
        parts=3,
        run="r",
        job="j",
    )
    return FilesRound(run, job, destination, before)


def test_what_a_round_left_whose_destination_was_removed_gives_way_when_that_is_added_again(tmp_path: Path) -> None:
    done, left, of_another = round_to(tmp_path, 2), round_to(tmp_path, 3), "_replay-shop.other_3"
    done.objects.write("manifest-00000002.json", b'{"job": "shop.relay_audit_2"}')
    left.objects.write(f"{left.staging}/part-00000-x.txt", b"{}")
    again = round_to(tmp_path, 4)
    again.check()
    assert [path.name for path in tmp_path.iterdir()] == ["manifest-00000002.json"]
    done.objects.write(f"{of_another}/frozen.json", b"{}")
    with pytest.raises(RunFailedError, match="it holds") as refused:
        again.check()
    assert refused.value.reason == "DestinationNotEmpty"


def staged_chunk(delivery: FilesDelivery) -> Chunk:
    names = {f"{delivery.staging}/part-{n:05d}-x.txt": delivery.part_name(n) for n in range(COUNT)}
    for name in names:
        delivery.objects.write(name, name.encode())
    parts = tuple(Part(staged=staged, name=name, messages=1, bytes=1) for staged, name in names.items())
    return Chunk(number=0, next_split=1, sent=COUNT, failed=0, bytes=COUNT, last_global_position=COUNT, parts=parts)


def test_objects_are_delivered_in_parallel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delivery, move, met = delivery_to(tmp_path), StagedObjects.move, threading.Barrier(4)

    def slow_move(self: StagedObjects, name: str, to: str) -> None:
        met.wait(timeout=20)
        move(self, name, to)

    monkeypatch.setattr(StagedObjects, "move", slow_move)
    assert delivery.deliver(staged_chunk(delivery), 0, lambda: True)
    found = sorted(tmp_path.glob("part-*"))
    assert [path.name for path in found] == [delivery.part_name(n) for n in range(COUNT)]
    assert [path.read_text()[-11:] for path in found] == [f"{n:05d}-x.txt" for n in range(COUNT)]


def test_a_delivery_that_broke_off_is_completed_by_the_next(tmp_path: Path) -> None:
    delivery = delivery_to(tmp_path)
    chunk = staged_chunk(delivery)
    crashed = threading.Event()

    def observer(name: str, moment: str) -> None:
        if moment == "after" and not crashed.is_set():
            crashed.set()
            raise Crash

    with observing(observer), pytest.raises(Crash):
        delivery.deliver(chunk, 0, lambda: True)
    assert delivery.deliver(chunk, 0, lambda: True)
    assert len(list(tmp_path.glob("part-*"))) == COUNT


def test_no_more_objects_are_delivered_once_tombstones_have_changed(tmp_path: Path) -> None:
    delivery, asked = delivery_to(tmp_path), count()
    chunk = staged_chunk(delivery)
    assert not delivery.deliver(chunk, 0, lambda: next(asked) < 10)
    assert len(list(tmp_path.glob("part-*"))) == 10
    assert delivery.deliver(chunk, 0, lambda: True)
    assert len(list(tmp_path.glob("part-*"))) == COUNT
