"""After a purge exactly its selection is gone, archived and audited, and the heads stay."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.purge import Archive, Hold, Match, Rule, StreamPosition
from messagestore_core.store.audit import read_audit
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.handle import Store
from messagestore_jobs.purge import selection
from support.maintenance import age, maintain
from support.purges import POLICY, archived, archived_positions, files_below, purge
from support.stores import START, add_dead_letters, add_messages, heads_of, make_store, message, positions, stored

DAY = timedelta(days=1)
NOW = START + 3 * DAY
ALL = (Rule(name="all", max_messages_per_stream=0),)


def days(count: int, each: int = 4) -> list[dict]:
    return [message(n, inserted_at=START + (n // each) * DAY) for n in range(count * each)]


def test_a_dry_run_removes_nothing_and_has_a_row_in_the_audit(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", days(2))
    before = files_below(table.uri)
    outcome = purge(
        spark, table, NOW, mode="DryRun", rules=ALL, archive=Archive(uri=f"file://{tmp_path}/archive"),
        holds=(Hold(name="one", match=Match(message_ids=("m1",))),),
    )  # fmt: skip
    after = files_below(table.uri)
    assert before.items() <= after.items()
    assert {name.partition("/")[0] for name in after.keys() - before.keys()} == {"audit"}
    assert [row["action"] for row in read_audit(Store(table.uri))] == ["Preview"]
    assert not (tmp_path / "archive").exists()
    assert outcome.purge is None
    assert outcome.preview.messages == 7
    assert outcome.preview.held == 1
    assert outcome.preview.bytes == 7 * len(b'{"n":0}')
    assert outcome.preview.by_rule == {"all": 7}
    assert (outcome.preview.oldest, outcome.preview.newest) == (START, START + DAY)
    assert outcome.preview.table_version == outcome.table.version


@pytest.mark.parametrize("mode", ["DryRun", "Enforce"])
def test_what_was_selected_is_released_if_it_can_not_be_summed_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    def fail(*_: object) -> str:
        raise OSError("no answer")

    monkeypatch.setattr(selection, "preview_id", fail)
    with pytest.raises(OSError, match="no answer"):
        purge(spark, make_store(tmp_path / "store", days(1)), NOW, mode=mode, rules=ALL)
    assert spark._jsparkSession.sharedState().cacheManager().isEmpty()


def test_a_purge_removes_whole_days_and_single_rows_and_reports_both(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", days(3))
    totals = last_note(Store(table.uri)).totals
    before = {row["global_position"]: row for row in stored(table.uri)}
    rules = (
        Rule(name="old", max_age=2 * DAY + DAY / 2),
        Rule(name="truncated", truncate_before=StreamPosition(stream_name="order-1", position=6)),
    )
    outcome = purge(spark, table, NOW, rules=rules, archive=Archive(uri=f"file://{tmp_path}/archive"))
    assert positions(table.uri) == [6, 7, 8, 9, 10, 11]
    assert stored(table.uri) == [before[n] for n in range(6, 12)]
    assert archived_positions(f"file://{tmp_path}/archive") == [0, 1, 2, 3, 4, 5]
    assert (outcome.purge.purged, outcome.purge.archived, outcome.purge.held) == (6, 6, 0)
    assert outcome.preview.by_rule == {"old": 4, "truncated": 6}
    assert last_note(Store(table.uri)).totals == totals
    assert heads_of(Store(table.uri)) == ({"order-1": 6}, 12)
    audit = read_audit(Store(table.uri))
    assert [row["action"] for row in audit] == ["Purge"]
    assert audit[0]["actor"] == f"RetentionPolicy/default/{POLICY.name}"
    assert audit[0]["generation"] == 3
    assert audit[0]["counts"]["purged"] == 6
    assert audit[0]["bytes"] == outcome.preview.bytes
    assert audit[0]["table_version_before"] == outcome.preview.table_version
    assert audit[0]["table_version_after"] == outcome.purge.table_version_after
    assert [rule["name"] for rule in json.loads(audit[0]["rules"])["rules"]] == ["old", "truncated"]
    assert not any(name.startswith("_purges/") and not name.endswith("/") for name in files_below(table.uri))


def test_an_archive_is_what_was_removed(spark: SparkSession, tmp_path: Path) -> None:
    odd = {"payload": None, "headers": {"a": "b"}, "metadata": '{"n":1.10}', "ttl": "P1D"}
    table = make_store(tmp_path / "store", [*days(1), message(4, stream_name="order-2", position=0, **odd)])
    before = stored(table.uri)
    purge(spark, table, NOW, rules=ALL, archive=Archive(uri=f"file://{tmp_path}/archive"))
    table_rows = archived(f"file://{tmp_path}/archive")
    kept = [{**row, "headers": dict(row["headers"])} for row in table_rows.sort_by("global_position").to_pylist()]
    assert kept == before
    assert stored(table.uri) == []


def test_heads_outlive_whole_streams_and_the_whole_table(spark: SparkSession, tmp_path: Path) -> None:
    rows = [message(n, stream_name=f"order-{n % 2}", position=n // 2) for n in range(6)]
    table = make_store(tmp_path / "store", rows)
    purge(spark, table, NOW, rules=(Rule(name="one", match=Match(stream_names=("order-1",))),))
    assert heads_of(Store(table.uri)) == ({"order-1": 3}, 6)
    purge(spark, table, NOW, rules=ALL, run="purge-2")
    assert heads_of(Store(table.uri)) == ({"order-0": 3, "order-1": 3}, 6)
    add_messages(table.uri, [message(6, stream_name="order-0", position=3)])
    purge(spark, table, NOW, rules=ALL, run="purge-3")
    assert heads_of(Store(table.uri)) == ({"order-0": 4, "order-1": 3}, 7)
    assert [row["run"] for row in read_audit(Store(table.uri))] == ["purge-1", "purge-2", "purge-3"]


def test_nothing_to_do_leaves_no_trace(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", days(1))
    before = files_below(table.uri)
    outcome = purge(spark, table, NOW, rules=(Rule(name="old", max_age=90 * DAY),), dead_letters_max_age=DAY)
    assert outcome.purge.purged == 0
    assert files_below(table.uri) == before


def test_old_dead_letters_go_and_are_counted(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", days(1))
    reasons = ("Unparseable", "Unparseable", "MissingField")
    add_dead_letters(
        table.uri,
        [{"raw": bytes([n]), "reason": reason, "failed_at": START + n * DAY} for n, reason in enumerate(reasons)],
    )
    outcome = purge(spark, table, NOW, dead_letters_max_age=2 * DAY)
    assert outcome.purge.dead_letters == 1
    assert outcome.table.dead_letters_by_reason == {"Unparseable": 1, "MissingField": 1}
    left = Store(table.uri).table("dead_letters").to_pyarrow_table()
    assert sorted(left["raw"].to_pylist()) == [b"\x01", b"\x02"]
    assert read_audit(Store(table.uri))[0]["counts"]["deadLetters"] == 1


def test_a_claim_checked_payload_goes_with_an_erased_row_or_with_the_tables_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    payloads = tmp_path / "store" / "payloads"
    rows = [message(n, payload=None, payload_size=3, payload_uri=f"file://{payloads}/{n:020}") for n in range(3)]
    table = make_store(tmp_path / "store", rows)
    payloads.mkdir()
    for n in range(3):
        (payloads / f"{n:020}").write_bytes(b"abc")
    age(payloads, 2 * DAY)
    truncated = Rule(name="t", truncate_before=StreamPosition(stream_name="order-1", position=1))
    erased = Rule(name="e", match=Match(message_ids=("m1",)), erase=True)
    purge(spark, table, NOW, rules=(truncated, erased), erase_within=30 * DAY)
    assert sorted(file.name for file in payloads.iterdir()) == [f"{0:020}", f"{2:020}"]
    maintain(spark, table)
    assert sorted(file.name for file in payloads.iterdir()) == [f"{0:020}", f"{2:020}"]
    maintain(spark, table, deleted_file_retention=timedelta(0))
    assert [file.name for file in payloads.iterdir()] == [f"{2:020}"]
