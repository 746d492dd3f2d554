"""A check of a whole store tells what is wrong with it, and nothing of a sound one."""

import os
import tracemalloc
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from weakref import WeakSet

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from typer.testing import CliRunner

from messagestore import snapshot, verifying
from messagestore.errors import BrokenMessageError
from messagestore.reader import Reader
from messagestore.verifying import Check, verify
from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.store.delta_log import CommitNote
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.heads import raise_heads
from messagestore_core.store.schemas import MESSAGES
from messagestore_operator.cli.main import app
from support.stores import Row, add_messages, add_rows, change_rows, make_store, message, remove_rows

SOUND = ["tables", "totals", "positions", "ids", "payloads", "seals", "index"]


def rows(*positions: int, stream: str = "order-1", first: int = 1) -> list[Row]:
    return [message(first + n, position=position, stream_name=stream) for n, position in enumerate(positions)]


def found(path: Path, **asked: Any) -> dict[str, Check]:
    return {check.name: check for check in verify(f"file://{path}", **asked)}


def wrong(path: Path, **asked: Any) -> dict[str, tuple[str, ...]]:
    checks = found(path, **asked).values()
    assert all(check.count == len(check.problems) for check in checks)
    return {check.name: check.problems for check in checks if check.problems}


def noted_heads(uri: str, **heads: int) -> None:
    names = [name.replace("_", "-") for name in heads]
    streams = pa.table({"stream_name": names, "next_position": list(heads.values())})
    raise_heads(HeldStore(uri), streams, max(heads.values()))


def test_nothing_is_wrong_with_a_sound_store(tmp_path: Path) -> None:
    make_store(tmp_path, rows(0, 1, 2), rows(0, stream="order-2", first=4))
    checks = found(tmp_path)
    assert list(checks) == SOUND
    assert not wrong(tmp_path)
    assert {name: check.examined for name, check in checks.items()} == {
        "tables": "the logs and notes of all tables",
        "totals": "4 records",
        "positions": "4 messages",
        "ids": "4 ids",
        "payloads": "4 messages",
        "seals": "",
        "index": "",
    }


def test_a_copy_is_read_by_the_times_in_its_log_not_by_those_of_its_files(tmp_path: Path) -> None:
    table = make_store(tmp_path, rows(0, 1, 2, 3))
    noted_heads(table.uri, order_1=4)
    before, at = Reader(table.uri).version, datetime.now(UTC)
    remove_rows(table.uri, "messages", "position in (0, 3)")
    for entry in tmp_path.glob("*/_delta_log/*.json"):
        os.utime(entry)
    assert not wrong(tmp_path)
    for chosen in (Reader(table.uri, at=at), Reader(table.uri, version=before)):
        assert (chosen.version, chosen.stream_version("order-1"), chosen.statistics().messages) == (before, 3, 4)


def test_a_store_without_messages_is_sound(tmp_path: Path) -> None:
    make_store(tmp_path, [])
    assert not wrong(tmp_path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((0, 1, 1), "position 1 of stream order-1 was given twice"),
        ((0, 1, 4), "stream order-1 has no positions 2 to 3, and no purge noted that it took them"),
        ((1, 2), "stream order-1 has no positions 0 to 0, and no purge noted that it took them"),
        ((1, 0), "position 1 of stream order-1 has a smaller global position than the one before it"),
    ],
)
def test_a_position_is_given_once_in_order_and_without_a_gap(tmp_path: Path, given: Iterable[int], said: str) -> None:
    make_store(tmp_path, rows(*given))
    assert wrong(tmp_path) == {"positions": (said,)}


def test_a_global_position_is_given_once(tmp_path: Path) -> None:
    make_store(tmp_path, rows(0, 1), rows(0, stream="order-2", first=2))
    assert wrong(tmp_path) == {"positions": ("global position 2 was given twice",)}


def test_holes_below_what_a_purge_noted_are_its_own(tmp_path: Path) -> None:
    table = make_store(tmp_path, rows(0, 1, 2, 3))
    noted_heads(table.uri, order_1=4)
    remove_rows(table.uri, "messages", "position in (0, 2)")
    assert not wrong(tmp_path)
    add_rows(
        HeldStore(table.uri),
        "messages",
        table_of(rows(6, first=5)),
        CommitNote(run="ingest", totals=IngestCounts(received=5, stored=5)),
    )
    assert wrong(tmp_path) == {
        "positions": ("stream order-1 has no positions 4 to 5, and no purge noted that it took them",)
    }


def table_of(given: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(given, schema=MESSAGES)


def test_all_checks_read_one_version(tmp_path: Path) -> None:
    table = make_store(tmp_path, rows(0, 1))
    checks = verify(table.uri)
    examined = {check.name: check.examined for check in (next(checks), next(checks))}
    add_messages(table.uri, rows(2, first=3))
    examined |= {check.name: check.examined for check in checks}
    assert [examined[name] for name in SOUND[1:5]] == ["2 records", "2 messages", "2 ids", "2 messages"]


def test_totals_add_up(tmp_path: Path) -> None:
    table = make_store(tmp_path, [])
    totals = IngestCounts(received=3, stored=1, duplicates=1)
    add_rows(HeldStore(table.uri), "messages", table_of(rows(0, 1)), CommitNote(run="ingest", totals=totals))
    assert wrong(tmp_path) == {
        "totals": (
            "3 records were received, and stored, duplicates, dead-lettered, filtered and discarded ones are 2",
            "2 messages are in the table, and 1 were stored",
        )
    }


def test_tables_that_others_changed_are_named(tmp_path: Path) -> None:
    make_store(tmp_path, rows(0, 1))
    DeltaTable(str(tmp_path / "messages")).delete("position = 1")
    assert list(wrong(tmp_path)) == ["tables"]
    (problem,) = wrong(tmp_path)["tables"]
    assert "was changed by another writer: DELETE at version" in problem


def test_a_payload_is_what_was_stored(tmp_path: Path) -> None:
    table = make_store(tmp_path, rows(0, 1))
    change_rows(table.uri, "messages", {"payload": "cast('other' as bytea)"}, "position = 1")
    ((name, (problem,)),) = wrong(tmp_path).items()
    assert (name, "m2" in problem, "SHA-256" in problem) == ("payloads", True, True)
    assert found(tmp_path, payloads=False)["payloads"].note == "not asked for"


def test_messages_without_a_seal_are_counted(tmp_path: Path) -> None:
    make_store(tmp_path, rows(0, 1))
    assert found(tmp_path, seal_keys=["a key"])["seals"] == Check("seals", "2 messages", note="2 messages have no seal")
    with (
        Reader(str(tmp_path), seal_keys=["a key"]) as reader,
        pytest.raises(BrokenMessageError, match="it has no seal"),
    ):
        list(reader.get_messages())


@pytest.mark.parametrize("name", ["payloads", "seals"])
def test_of_many_broken_messages_a_page_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(snapshot, "PAGE", 5)
    monkeypatch.setattr(verifying, "MOST", 3)
    make_store(tmp_path, [message(number, payload_sha256="0" * 64, hmac="of no key") for number in range(1, 51)])
    alive, most = WeakSet[BrokenMessageError](), [0]

    class NotedError(BrokenMessageError):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            alive.add(self)
            most[0] = max(most[0], len(alive))

    monkeypatch.setattr("messagestore.integrity.BrokenMessageError", NotedError)
    check = found(tmp_path, payloads=name == "payloads", seal_keys=["a key"] if name == "seals" else [])[name]
    assert (check.count, check.examined) == (50, "50 messages")
    assert [problem.partition(" (")[0] for problem in check.problems] == ["message m1", "message m2", "message m3"]
    assert most[0] <= 2 * snapshot.PAGE


def test_of_many_gaps_a_part_is_in_memory(tmp_path: Path) -> None:
    gaps = 60_000
    table = make_store(tmp_path, rows(0))
    one, numbers = table_of(rows(0)), pa.array(range(2, gaps + 2))
    many = pa.Table.from_arrays([pa.repeat(column[0], gaps) for column in one.columns], schema=one.schema)
    for name in ("position", "global_position"):
        many = many.set_column(many.column_names.index(name), MESSAGES.field(name), pc.multiply(numbers, 2))
    add_rows(HeldStore(table.uri), "messages", many, CommitNote(run="ingest", totals=IngestCounts()))
    tracemalloc.start()
    try:
        positions = {check.name: check for check in verify(table.uri, payloads=False)}["positions"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (positions.count, len(positions.problems)) == (gaps, 100)
    assert positions.problems[:2] == tuple(
        f"stream order-1 has no positions {gap}, and no purge noted that it took them" for gap in ("1 to 3", "5 to 5")
    )
    assert peak < 16 << 20


def test_the_command_says_what_it_looked_at_and_fails_if_something_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_store(tmp_path, rows(0, 1, 2))
    command = CliRunner()
    done = command.invoke(app, ["verify", str(tmp_path)])
    assert (done.exit_code, done.output.splitlines()[2]) == (0, "positions: ok, 3 messages")
    assert "index:     not checked, there is none; the next run makes it" in done.output
    change_rows(table.uri, "messages", {"position": "7"}, "position = 2")
    done = command.invoke(app, ["verify", str(tmp_path)])
    assert done.exit_code == 1
    assert "positions: 1 wrong, 3 messages\n  stream order-1 has no positions 2 to 6" in done.output
    monkeypatch.delenv("SEAL", raising=False)
    done = command.invoke(app, ["verify", str(tmp_path), "--seal-key", "SEAL"])
    assert done.exit_code == 2
    assert "there is no such environment variable" in done.output
    assert command.invoke(app, ["verify", str(tmp_path / "none")]).exit_code == 1
