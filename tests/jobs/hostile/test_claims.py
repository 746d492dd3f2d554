"""A row claims that its payload is elsewhere: nothing there is sent, archived, rewritten or deleted."""

import hashlib
import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Archive, Rule, Scrub
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.purges import archived, purge
from support.replays import files_replay, sent
from support.stores import START, Row, make_store, message, positions, stored

SECRET = b'{"who":"somebody else"}'
ALL = (Rule(name="all", max_messages_per_stream=0),)
DIGEST = hashlib.sha256(SECRET).hexdigest()


def claiming(number: int, payload_uri: str, **given: object) -> Row:
    row = message(number, payload=SECRET) | {"payload": None, "payload_uri": payload_uri}
    return row | given


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file outside the store, however a row names it."""
    path = tmp_path / f"{9:020}"
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def table(tmp_path: Path, outside: Path) -> Table:
    """Nine messages, of which only the last two are as the store writes them."""
    payloads = f"file://{tmp_path}/store/payloads"
    rows = [
        claiming(1, f"file://{outside}"),
        claiming(2, f"file://{outside}", payload_sha256=None),
        claiming(3, f"{payloads}/../../{outside.name}"),
        claiming(4, f"{payloads}/{4:020}", payload_sha256=None),
        claiming(5, f"{payloads}/{5:020}", payload_size=None),
        claiming(6, f"{payloads}/{6:020}", payload_size=1),
        claiming(7, f"file://{outside}", payload=b"and one inside"),
        claiming(8, f"{payloads}/{8:020}"),
        message(9),
    ]
    table = make_store(tmp_path / "store", rows)
    for number in (4, 5, 6, 8):
        Objects(payloads, Storage()).write(f"{number:020}", SECRET)
    # Too large for any memory; a sparse file uses no disk.
    os.truncate(tmp_path / "store" / "payloads" / f"{6:020}", 1 << 40)
    return table


def test_a_replay_sends_no_other_file_and_counts_what_it_does_not_send(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    outcome = run_replay(Run.of(files_replay(table, tmp_path / "out", on_failed="Continue"), spark, Silent()))

    assert sent(tmp_path / "out") == [8, 9]
    assert (outcome.progress.replayed, outcome.progress.failed) == (2, 7)
    assert outcome.progress.first_failed_positions == (1, 2, 3, 4, 5, 6, 7)


def test_a_purge_removes_the_rows_and_no_object_outside_of_the_store(
    spark: SparkSession, table: Table, tmp_path: Path, outside: Path
) -> None:
    to = Archive(uri=f"file://{tmp_path}/archive", format="Parquet")

    outcome = purge(spark, table, START, rules=ALL, archive=to)

    assert outcome.purge.purged == outcome.purge.archived == 9
    assert positions(table.uri) == []
    assert outside.read_bytes() == SECRET
    assert len(Objects(f"{table.uri}/payloads", Storage()).names()) == 4
    rows = archived(to.uri)
    kept = dict(zip(rows["global_position"].to_pylist(), rows["payload"].to_pylist(), strict=True))
    assert {number for number, payload in kept.items() if payload == SECRET} == {4, 5, 8}


def test_a_scrub_rewrites_no_object_outside_of_the_store(
    spark: SparkSession, table: Table, tmp_path: Path, outside: Path
) -> None:
    purge(spark, table, START, rules=ALL, action="Scrub", scrub=Scrub(payload_paths=("$.who",)))

    assert outside.read_bytes() == SECRET
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [outside.name]
    uris = {row["global_position"]: row["payload_uri"] for row in stored(table.uri)}
    assert {number for number, uri in uris.items() if uri} == {4, 8}
