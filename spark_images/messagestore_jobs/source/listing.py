"""What lies at a source of files, now."""

import json
from datetime import UTC, datetime, timedelta

from pyspark.sql import SparkSession

from messagestore_jobs.store.files import SourceFile

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def list_files(spark: SparkSession, uri: str) -> list[SourceFile]:
    """Every file below a prefix, in no order; names that start with "." or "_" are passed over."""
    jvm = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    listed = json.loads(jvm.dev.messagestore.spark.FileListing.list(conf, uri))  # type: ignore[union-attr]
    return [
        SourceFile(_whole(path), size, _EPOCH + timedelta(milliseconds=modified)) for path, size, modified in listed
    ]


def unreadable(spark: SparkSession, uris: set[str]) -> dict[str, str]:
    """Which files are there no more or may not be read, and why."""
    jvm = spark._jvm
    conf = spark._jsparkSession.sessionState().newHadoopConf()
    return dict(json.loads(jvm.dev.messagestore.spark.FileListing.unreadable(conf, json.dumps(sorted(uris)))))  # type: ignore[union-attr]


def _whole(path: str) -> str:
    """Hadoop leaves the empty host of a local URI out; people write it."""
    return path.replace("file:/", "file:///", 1) if path.startswith("file:/") and path[6:7] != "/" else path
