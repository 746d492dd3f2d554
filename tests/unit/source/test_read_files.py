"""What has been read is remembered a source at a time."""

from datetime import UTC, datetime
from pathlib import Path

from messagestore_jobs.contract.run_document import Owner, Table
from messagestore_jobs.store.files import Batch, Range, ReadFiles, SourceFile
from messagestore_jobs.store.folder import open_folder

NOW = datetime(2026, 1, 5, tzinfo=UTC)


def batch(number: int, name: str) -> Batch:
    file = SourceFile(f"file:///landing/{name}", 10, NOW)
    return Batch(number, NOW, (Range(file, 0, 10),))


def test_a_batch_that_was_cut_off_is_found_though_another_source_is_further_on(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/store"
    open_folder(Table(uri=uri, owner=Owner(namespace="default", name="orders")))
    ReadFiles(uri, "old").write_down(batch(7, "a"))
    ReadFiles(uri, "new").write_down(batch(1, "b"))

    read = ReadFiles(uri, "new")

    assert read.last_batch == 1
    assert read.planned(1) == batch(1, "b")


def test_a_file_that_another_source_read_may_have_dead_letters_already(tmp_path: Path) -> None:
    uri = f"file://{tmp_path}/store"
    open_folder(Table(uri=uri, owner=Owner(namespace="default", name="orders")))
    ReadFiles(uri, "old").write_down(batch(1, "a"))

    assert ReadFiles(uri, "new").read_before(batch(1, "a")) == {"file:///landing/a"}
    assert ReadFiles(uri, "new").read_before(batch(1, "b")) == set()
