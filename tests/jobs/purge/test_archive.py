"""An archive belongs to one store: one that is made again in the same folder takes no other's archive for its own."""

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Archive, PurgeOutcome, Rule
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.purge.archive import MANIFEST
from support.long import few
from support.purges import archived, files_below, purge
from support.stores import START, make_store, message, positions

DAY = timedelta(days=1)
NOW = START + 3 * DAY
ALL: dict[str, Any] = {"rules": (Rule(name="all", max_age=timedelta(0)),)}


def made_with(folder: Path, *payloads: bytes) -> Any:
    """A store whose messages differ from those of another only in their payloads."""
    rows = [message(n, payload=payload) for n, payload in enumerate(payloads)]
    return make_store(folder / "store", rows)


def archive_in(folder: Path) -> Archive:
    return Archive(uri=f"file://{folder}/archive")


def payloads_in(folder: Path) -> list[bytes]:
    table = archived(f"file://{folder}/archive")
    return [] if table is None else sorted(table["payload"].to_pylist())


def test_a_store_that_is_made_again_in_its_folder_archives_what_it_removes(spark: SparkSession, tmp_path: Path) -> None:
    for payloads in ([b"a", b"b"], [b"c", b"d"]):
        shutil.rmtree(tmp_path / "store", ignore_errors=True)
        table = made_with(tmp_path, *payloads)
        done = purge(spark, table, NOW, archive=archive_in(tmp_path), **ALL)
        assert (done.purge.purged, done.purge.archived) == (2, 2)
        assert positions(table.uri) == []
    assert payloads_in(tmp_path) == [b"a", b"b", b"c", b"d"]


def waiting(spark: SparkSession, folder: Path, run: str) -> tuple[Any, PurgeOutcome]:
    """A store with a preview that waits for approval."""
    table = made_with(folder, b"a")
    return table, purge(spark, table, NOW, run=run, approval_required=True, archive=archive_in(folder), **ALL)


@pytest.mark.parametrize(("run", "is_own"), few([("approved", True), ("another", False)], ("another", False)))
def test_an_archive_that_an_earlier_release_sealed_belongs_to_the_purge_of_its_run(
    spark: SparkSession, tmp_path: Path, run: str, is_own: bool
) -> None:
    table, asked = waiting(spark, tmp_path / "elsewhere", "asks")
    approved: dict[str, Any] = {"approval_required": True, "approved_preview": asked.preview.id}
    purge(spark, table, NOW, run="approved", archive=archive_in(tmp_path / "elsewhere"), **approved, **ALL)
    table, asked = waiting(spark, tmp_path, "asks")
    approved["approved_preview"] = asked.preview.id
    folder = tmp_path / "archive" / asked.preview.id
    (sealed,) = (tmp_path / "elsewhere/archive").iterdir()
    shutil.copytree(sealed, folder)
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps({k: v for k, v in manifest.items() if k != "store"} | {"run": run}))
    before = files_below(f"file://{folder}")
    if is_own:
        done = purge(spark, table, NOW, run="approved", archive=archive_in(tmp_path), **approved, **ALL)
        assert done.purge.archived == 1
        return
    with pytest.raises(RunFailedError, match="the archive of another store or purge") as refused:
        purge(spark, table, NOW, run="approved", archive=archive_in(tmp_path), **approved, **ALL)
    assert refused.value.reason == "ArchiveTaken"
    assert files_below(f"file://{folder}") == before
    assert positions(table.uri) == [0]
