"""Broken messages that a reader leaves out, and readers that can't be opened."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from messagestore.errors import BrokenMessageError, StoreNotFoundError
from messagestore.reader import Reader
from messagestore.snapshot import Snapshot
from messagestore_core.contract.stores import StorageEntry
from support.stores import Row, make_store, message


def broken(*numbers: int) -> list[Row]:
    return [message(number, payload_sha256="0" * 64) for number in numbers]


def test_a_page_of_broken_messages_alone_is_not_the_end(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", [*broken(1, 2, 3), message(4), *broken(5), message(6), *broken(7)]).uri
    left_out = list[int]()

    def note(error: BrokenMessageError) -> None:
        left_out.append(error.global_position)

    with Reader(uri, on_broken=note) as reader:
        assert [one.global_position for one in reader.since("order-1", 0, batch_size=2)] == [4, 6]
        assert left_out == [1, 2, 3, 5]
        assert [one.position for one in reader.get_stream_messages("order-1", batch_size=1)] == [4]
        assert [one.global_position for one in reader.find(batch_size=2, payloads=True)] == [6, 4]
        assert list(reader.since(None, 6, batch_size=1)) == []


def test_the_newest_messages_are_as_many_as_asked_for_without_broken_ones(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", [message(1), message(2), *broken(3), message(4), *broken(5, 6)]).uri
    left_out = list[BrokenMessageError]()
    with Reader(uri, on_broken=left_out.append) as reader:
        assert [one.global_position for one in reader.latest("order-1", 2)] == [2, 4]
        assert [error.global_position for error in left_out] == [6, 5, 3]
        assert reader.arrow.latest(None, 9)["global_position"].to_pylist() == [1, 2, 4]
        assert [one.global_position for one in reader.latest("order", -1)] == [1, 2, 4]
        assert reader.latest("order", 0) == []
        last = reader.get_last_stream_message("order-1")
        assert last is not None
        assert last.global_position == 4
    with Reader(uri) as reader, pytest.raises(BrokenMessageError, match="m6"):
        reader.get_last_stream_message("order-1")


def test_members_of_a_sequence_are_given_behind_broken_ones(tmp_path: Path) -> None:
    rows = [message(number, sequence_id="s", sequence_number=number) for number in range(1, 7)]
    for at in (0, 1, 3):
        rows[at]["payload_sha256"] = "0" * 64
    left_out = list[BrokenMessageError]()
    with Reader(make_store(tmp_path / "store", rows).uri, on_broken=left_out.append) as reader:
        assert [one.global_position for one in reader.load_for_resequencer("s", batch_size=2)] == [3, 5]
        assert [error.global_position for error in left_out] == [1, 2, 4]
        assert [one.global_position for one in reader.load_for_resequencer("s", 4, batch_size=9)] == [5, 6]
        assert [one.global_position for one in reader.load_for_resequencer("s", 4, batch_size=-1)] == [5, 6]


def test_members_of_a_sequence_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = [1, 1, 2, 2, 2, 3]
    rows = [message(at, sequence_id="s", sequence_number=number) for at, number in enumerate(numbers, 1)]
    for at in (0, 2, 3):
        rows[at]["payload_sha256"] = "0" * 64
    read = list[int]()
    parts = Snapshot.parts

    def noted(*given: Any) -> Iterator[pa.Table]:
        for part in parts(*given):
            read.extend(part["global_position"].to_pylist())
            yield part

    monkeypatch.setattr(Snapshot, "parts", noted)
    with Reader(make_store(tmp_path / "store", rows).uri, on_broken=lambda _: None) as reader:
        assert [one.global_position for one in reader.load_for_resequencer("s", batch_size=2)] == [2, 5]
    assert read == [1, 2, 3, 4, 5]


def test_a_reader_of_no_store_trusts_no_authority_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    (tmp_path / "ca.pem").write_text("an authority")
    storage = [StorageEntry(bucket="lake", ca_file=str(tmp_path / "ca.pem"))]
    with pytest.raises(StoreNotFoundError) as missing:
        Reader(f"file://{tmp_path}/nothing", storage=storage)
    # The error holds what was opened, which nobody has collected.
    assert "SSL_CERT_FILE" not in os.environ, missing
