"""Which local runs have so little data that Spark starts with settings for little data."""

from pathlib import Path
from typing import Any

import pytest

from messagestore_jobs.driver import idle_check
from messagestore_operator.api.kinds import parse_resource
from messagestore_operator.local.spark import holds_little
from support.local_runs import replay, stream

KAFKA = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}}
LANDING = "landing/2026/monday.jsonl"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(idle_check, "LITTLE_BYTES", 1000)
    monkeypatch.setattr(idle_check, "LITTLE_FILES", 3)
    return tmp_path


def little(*manifests: dict[str, Any]) -> bool:
    return holds_little([parse_resource(manifest) for manifest in manifests])


def put(folder: Path, name: str, size: int = 1) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(b"x" * size)


def test_folders_that_are_not_there_yet_hold_little(folder: Path) -> None:
    assert little(stream(folder))


def test_what_lies_in_all_folders_counts_together(folder: Path) -> None:
    put(folder, LANDING, 400)
    put(folder, "orders/messages/part-0.parquet", 500)
    assert little(stream(folder), replay(folder))
    put(folder, "again/part-0.jsonl", 101)
    assert little(stream(folder))
    assert not little(stream(folder), replay(folder))


def test_many_small_files_are_not_little(folder: Path) -> None:
    for number in range(4):
        assert little(stream(folder))
        put(folder, f"landing/{number}.jsonl")
    assert not little(stream(folder))


@pytest.mark.parametrize("source", [KAFKA, {"files": {"uri": "s3a://lake/landing"}}])
def test_a_source_on_no_local_folder_counts_as_more_than_little(folder: Path, source: dict[str, Any]) -> None:
    assert not little(stream(folder, source=source))
    assert not little(stream(folder, lifecycle={"source": source}))
