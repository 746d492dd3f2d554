"""A store comes back from a backup as docs/backup.md says: what was read since is read again, nothing is doubled."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore.reader import Reader
from messagestore_core.contract.purge import Match, Rule
from messagestore_core.store.errors import TableRefusedError
from support.ingests import START, Stream, lines, record
from support.purges import purge

LARGE = b'"' + b"x" * 2000 + b'"'
ERASING = (Rule(name="gone", match=Match(message_ids=("m1",)), erase=True),)


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Stream:
    """A store with two messages, one of them under a claim check, and a backup of it in folder backup."""
    stream = Stream(spark, tmp_path, {"claim_check_bytes": 1000})
    stream.arrive("a.jsonl", lines(record("m1"), record("m2", payload=LARGE), b"{"))
    stream.run()
    shutil.copytree(tmp_path / "store", tmp_path / "backup", ignore=shutil.ignore_patterns("_index"))
    return stream


def restore(stream: Stream, name: str = "store") -> None:
    shutil.rmtree(stream.folder / name, ignore_errors=True)
    shutil.copytree(stream.folder / "backup", stream.folder / name)
    stream.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


def test_records_since_the_backup_are_read_again_once(stream: Stream) -> None:
    stream.arrive("b.jsonl", lines(record("m3"), record("m1")))
    stream.run()
    before = stream.messages()

    restore(stream)
    again = stream.run()

    assert (again.counts.received, again.counts.stored, again.counts.duplicates) == (2, 1, 1)
    assert [(row["message_id"], row["position"], row["payload"]) for row in stream.messages()] == [
        (row["message_id"], row["position"], row["payload"]) for row in before
    ]
    assert len(stream.dead_letters()) == 1
    with Reader(stream.table.uri) as reader:
        assert [message.payload for message in reader.get_messages()][1] == LARGE
    assert stream.run().counts.received == 0


def test_an_erased_message_comes_back_until_its_rule_runs_again(stream: Stream) -> None:
    purge(stream.spark, stream.table, START + timedelta(hours=1), rules=ERASING)
    assert stream.ids() == ["m2"]

    restore(stream)
    assert stream.ids() == ["m1", "m2"]
    purge(stream.spark, stream.table, START + timedelta(hours=2), run="purge-2", rules=ERASING)

    assert stream.ids() == ["m2"]


def test_a_copy_of_two_moments_is_refused(stream: Stream) -> None:
    stream.arrive("b.jsonl", lines(record("m3")))
    stream.run()
    shutil.rmtree(stream.folder / "backup" / "messages")
    shutil.copytree(stream.folder / "store" / "messages", stream.folder / "backup" / "messages")
    stream.arrive("c.jsonl", lines(record("m4")))

    restore(stream)

    with pytest.raises(TableRefusedError, match="do not belong together"):
        stream.run()


def test_claim_checks_are_found_only_at_the_same_place(stream: Stream) -> None:
    restore(stream, "elsewhere")
    broken: list[str] = []
    uri = f"file://{stream.folder}/elsewhere"

    with Reader(uri, on_broken=lambda error: broken.append(str(error))) as reader:
        assert [message.message_id for message in reader.get_messages()] == ["m1"]

    (said,) = broken
    assert said.startswith("message m2 ")
