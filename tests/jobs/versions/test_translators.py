"""Old messages translated to the envelope's current version: equal from Spark and from Arrow, and in a replay."""

import json
from pathlib import Path

from pyspark.sql import SparkSession

from messagestore_core.contract.records import FieldSource, Translator
from messagestore_core.progress import Silent
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from messagestore_core.versions import declared, translate_table
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.replay.records import translated
from messagestore_jobs.rows.messages import read_messages
from support.ingests import Stream, lines, record
from support.replays import files_replay, records
from support.stores import make_store, message

TRANSLATORS = (
    Translator(
        from_version=1,
        fields={
            "type": FieldSource(rename="typeNamespace"),
            "typeNamespace": FieldSource(value="shop"),
            "replyTo": FieldSource(rename="causationId", default="nobody"),
        },
        headers={"region": FieldSource(path="$.metadata['re\\'gion']", default="eu"), "X": FieldSource(rename="x")},
    ),
    Translator(
        from_version=0,
        fields={
            "typeNamespace": FieldSource(path="$.payload['n']"),
            "typeRevision": FieldSource(path="$.payload.list[1]", default="none"),
            "correlationId": FieldSource(path="$.headers['X-Id']"),
        },
        headers={"x": FieldSource(path="$.payload")},
    ),
    Translator(from_version=5, headers={"gone": FieldSource(path="$.metadata.none"), "kept": FieldSource(default="d")}),
)
ROWS = [
    message(
        1, schema_version=None, payload=b'{"n": 1.10, "list": [0, {"a":  1}]}', headers={"X-Id": "c", "tenant": "t"}
    ),
    message(2, schema_version=0, payload=b"no json", metadata='{"re\'gion": "us"}', headers={}),
    message(3, schema_version=1, type_namespace="old", causation_id="cause", headers={"x": "1", "region": "kept not"}),
    message(4, schema_version=2, headers={"x": "1"}),
    message(5, schema_version=5, payload=None, payload_size=None),
    message(6, schema_version=5, headers={"gone": "g", "kept": "k"}),
    message(7, schema_version=0, payload=b'{"n": null, "list": "\\u00e9"}', metadata="no json"),
    message(8, schema_version=0, payload=b'{"n": "a", "n": "b"}'),
]


def test_spark_and_arrow_translate_rows_alike(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ROWS)
    by_spark = (
        translated(read_messages(spark, Store(table.uri)), TRANSLATORS).orderBy("global_position").toArrow().to_pylist()
    )
    by_arrow = translate_table(
        Store(table.uri).table("messages").to_pyarrow_table().sort_by("global_position"), TRANSLATORS
    ).to_pylist()
    for one, other in zip(by_spark, by_arrow, strict=True):
        assert {**one, "headers": dict(one["headers"] or ())} == {**other, "headers": dict(other["headers"] or ())}
    assert [row["schema_version"] for row in by_arrow] == [2, 2, 2, 2, 6, 6, 2, 2]
    first = by_arrow[0]
    assert (first["type"], first["type_revision"], first["correlation_id"]) == ("1.10", '{"a":  1}', "c")
    assert dict(first["headers"])["X"] == '{"n": 1.10, "list": [0, {"a":  1}]}'


def test_a_replay_sends_the_current_version_and_the_store_keeps_the_old(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", ROWS[2:4])
    outcome = run_replay(Run.of(files_replay(table, tmp_path / "out", translators=TRANSLATORS), spark, Silent()))
    assert (outcome.progress.replayed, outcome.progress.failed) == (2, 0)
    old, new = records(tmp_path / "out")
    assert (old["schemaVersion"], old["type"], old["typeNamespace"], old["replyTo"]) == (2, "old", "shop", "cause")
    assert "causationId" not in old
    assert old["headers"] == {"region": "eu", "X": "1"}
    assert (new["schemaVersion"], new["headers"]) == (2, {"x": "1"})
    assert Store(table.uri).table("messages").to_pyarrow_table()["schema_version"].to_pylist() == [1, 2]


def test_a_store_keeps_the_streams_translators_for_readers(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path)
    stream.arrive("a.jsonl", lines(record("m1")))
    stream.run(translators=TRANSLATORS)
    assert declared(Objects(stream.table.uri, Storage())) == list(TRANSLATORS)
    stream.run()
    assert declared(Objects(stream.table.uri, Storage())) == []
    assert json.loads((tmp_path / "store" / "_translators.json").read_bytes()) == []
