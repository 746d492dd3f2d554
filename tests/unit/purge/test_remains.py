"""What an erasure finds in a store: names of erased streams, and files that no run needs."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable
from deltalake.transaction import AddAction

from messagestore_core.contract.run_document import Resource
from messagestore_core.store import audit
from messagestore_core.store.audit import AuditEntry, add_audit, read_audit
from messagestore_core.store.claim import holding
from messagestore_core.store.fence import HeldStore, observing
from messagestore_core.store.handle import Store
from messagestore_core.store.heads import HiddenHeads
from messagestore_core.store.keyed import stream_key
from messagestore_core.store.tombstones import open_erased
from messagestore_jobs.purge.remains import forget_past, names_left, refuse_remains, strange
from support.readings import tell
from support.stores import START, make_store, message

SPARK: Any = None
"""Without anything erased Spark is not asked."""
KEY = b"k" * 32
ERASED, ALIVE = "order-" + 26 * "a", "order-" + 30 * "a"


def hidden(name: str) -> HiddenHeads:
    return HiddenHeads({stream_key(KEY, name): 1}, 0, KEY)


@pytest.mark.parametrize("name", [ERASED, ALIVE[:-1]])
def test_the_start_of_a_long_name_in_statistics_is_no_name_of_another_stream(tmp_path: Path, name: str) -> None:
    store = Store(make_store(tmp_path / "store", [message(1, stream_name=ALIVE)]).uri)
    tell(store, "messages", bounds(name))
    assert list(names_left(Store(store.uri), hidden(name))) == []


def test_a_name_that_no_message_has_is_found_in_statistics(tmp_path: Path) -> None:
    store = Store(make_store(tmp_path / "store", [message(1, stream_name=ALIVE)]).uri)
    tell(store, "messages", bounds("order-1"))
    [left] = names_left(Store(store.uri), hidden("order-1"))
    assert left == "the log of messages has the name of a stream that only erased messages had"


def test_what_a_replay_beside_the_erasure_is_writing_is_not_strange() -> None:
    writing = "_replays/a.b_7/state/{}/_temporary/0/_temporary/attempt_202611291100_0001_m_000000_1/part-00000-a.txt"
    names = [*map(writing.format, ("staging", "placed", "selected")), "_replays/a.b_7/state/staging/_temporary/part-0"]
    assert list(strange(names, {}, set())) == [f"{names[-1]} is nothing that a run needs"]


@pytest.mark.parametrize("step", ["erase-vacuum", "erase-renew", "erase-checkpoint", "erase-log"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_row_of_the_audit_that_is_added_beside_an_erasure_stays(tmp_path: Path, step: str, moment: str) -> None:
    uri = make_store(tmp_path / "store", [message(1)]).uri
    add_row(uri, "run-1")

    def observer(*at: str) -> None:
        if at == (step, moment):
            add_row(uri, "run-2")

    with observing(observer):
        forget_past(HeldStore(uri), "audit", None)
    assert sorted(row["run"] for row in read_audit(Store(uri))) == ["run-1", "run-2"]


@pytest.mark.parametrize("killed_before", ["erase-renew", "erase-checkpoint", None])
def test_a_row_of_the_audit_whose_file_an_erasure_finds_before_its_commit_stays(
    tmp_path: Path, killed_before: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = make_store(tmp_path / "store", [message(1)]).uri
    add_row(uri, "run-1")
    first = iter([True])

    def kill(name: str, _: str) -> None:
        if name == killed_before:
            raise InterruptedError

    def write(table: DeltaTable, rows: pa.Table, mode: str, commit_properties: CommitProperties) -> None:
        """What delta-rs does, with an erasure between the two steps."""
        path = Path(table.table_uri.removeprefix("file://")) / "part-0.parquet"
        pq.write_table(rows, path)
        added = AddAction(path.name, path.stat().st_size, {}, 0, True, "{}")
        if next(first, False):
            with observing(kill), suppress(InterruptedError):
                forget_past(HeldStore(uri), "audit", None)
        table.create_write_transaction([added], mode, table.schema(), commit_properties=commit_properties)

    monkeypatch.setattr(audit, "write_deltalake", write)
    add_row(uri, "run-2")
    forget_past(HeldStore(uri), "audit", None)
    assert sorted(row["run"] for row in read_audit(Store(uri))) == ["run-1", "run-2"]


def test_a_row_of_the_audit_that_is_added_after_its_past_was_removed_is_not_strange(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1)])
    store = HeldStore(table.uri, epoch=1)
    with holding([store], "erase-1"):
        left = {name: forget_past(store, name, None) for name in store.existing_tables()}
        add_row(table.uri, "run-2")
        refuse_remains(SPARK, store, open_erased(store), left, set())


def add_row(uri: str, run: str) -> None:
    by = Resource(kind="ReplayJob", namespace="default", name="relay")
    add_audit(HeldStore(uri), AuditEntry(START, "Replay", run, by, {}, 0, 0))


def bounds(least: str) -> Callable[[dict[str, Any]], object]:
    return lambda said: said["minValues"].update(stream_name=least)
