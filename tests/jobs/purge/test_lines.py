"""An archive of Native records."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Archive, Hold, Match, Rule
from support.external_writes import observing
from support.purges import CrashError, crash_before_any_but, purge
from support.stores import START, make_store, message, positions

NOW = START + timedelta(days=3)
BEFORE_REMOVAL = ["freeze-rows", "freeze-plan", "archive-clear", "archive-files", "archive-seal", "heads"]


def records(folder: Path) -> list[dict]:
    lines = [line for file in folder.glob("*/part-*") for line in file.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=lambda record: record["globalPosition"])


def test_lines_hold_what_leaves_and_follow_a_late_hold(spark: SparkSession, tmp_path: Path) -> None:
    payloads = tmp_path / "store" / "payloads"
    claimed = {"payload": None, "payload_uri": f"file://{payloads}/{1:020}", "payload_size": 9}
    table = make_store(tmp_path / "store", [message(0), message(1, **claimed), message(2), message(3)])
    payloads.mkdir()
    (payloads / f"{1:020}").write_bytes(b'{"n":1.0}')
    task = {
        "rules": (Rule(name="all", match=Match(message_ids=("m0", "m1", "m2"))),),
        "archive": Archive(uri=f"file://{tmp_path}/archive", format="JSONLines"),
    }
    with pytest.raises(CrashError), observing(crash_before_any_but(BEFORE_REMOVAL)):
        purge(spark, table, NOW, **task)
    assert [record["messageId"] for record in records(tmp_path / "archive")] == ["m0", "m1", "m2"]
    held = (Hold(name="late", match=Match(message_ids=("m2",))),)
    outcome = purge(spark, table, NOW, holds=held, **task)
    assert (outcome.purge.purged, outcome.purge.archived) == (2, 2)
    assert positions(table.uri) == [2, 3]
    left = records(tmp_path / "archive")
    assert [(record["messageId"], record["payload"]) for record in left] == [("m0", {"n": 0}), ("m1", {"n": 1.0})]
    manifest = json.loads(next((tmp_path / "archive").glob("*/_manifest.json")).read_text())
    assert manifest["messages"] == 2
    # The message with a claim check is in a file of its own.
    assert [file["messages"] for file in manifest["files"] if file["messages"]] == [1, 1]
