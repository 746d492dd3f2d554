"""Forged entries in a table's log, by somebody with write access to a bucket."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

Action = dict[str, Any]


def commit(table: Path, *actions: Action) -> None:
    """Write the next version of a local table, with any content."""
    log = table / "_delta_log"
    newest = max(int(path.stem) for path in log.glob("*.json"))
    (log / f"{newest + 1:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def last(table: Path, kind: str) -> dict[str, Any]:
    """The newest action of a kind in a local table's log."""
    for path in sorted((table / "_delta_log").glob("*.json"), reverse=True):
        for line in path.read_text().splitlines():
            if kind in (action := json.loads(line)):
                return dict(action[kind])
    raise AssertionError(f"no {kind} in {table}")


def metadata(table: Path, change: Callable[[dict[str, Any], list[dict[str, Any]]], None]) -> Action:
    """The table's metadata after a change, which receives the action and its columns."""
    action = last(table, "metaData")
    schema = json.loads(action["schemaString"])
    change(action, schema["fields"])
    return {"metaData": action | {"schemaString": json.dumps(schema)}}


def with_property(table: Path, name: str, value: str) -> Action:
    return metadata(table, lambda action, _: action["configuration"].update({name: value}))


def with_column_metadata(table: Path, column: str, **said: Any) -> Action:
    def change(_: Action, fields: list[dict[str, Any]]) -> None:
        next(field for field in fields if field["name"] == column)["metadata"] |= said

    return metadata(table, change)


def generated(table: Path, column: str, expression: str) -> Action:
    """A column that Delta computes by an expression at each write."""
    return with_column_metadata(table, column, **{"delta.generationExpression": expression})


def protocol(reader: int, writer: int, *features: str) -> Action:
    action: Action = {"minReaderVersion": reader, "minWriterVersion": writer}
    if reader >= 3:
        action["readerFeatures"] = list(features)
    if writer >= 7:
        action["writerFeatures"] = list(features)
    return {"protocol": action}


def with_file(table: Path, path: str, **more: Any) -> Action:
    """An added data file with a path."""
    return {"add": last(table, "add") | {"path": path} | more}


def in_sums(path: Path, **said: Any) -> None:
    """Change a version's checksum file, which Spark writes beside the version."""
    path.write_text(json.dumps(json.loads(path.read_text()) | said))


def forget_logs(spark: SparkSession) -> None:
    """Make Spark read all logs again: versions have changed under the same numbers."""
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
