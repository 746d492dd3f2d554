"""A batch as a DataFrame of records."""

import json
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from messagestore_jobs.contract.run_document import FileFormat
from messagestore_jobs.store.files import Range

MAX_RECORD_BYTES = 256 << 20
"""A longer line or document is cut there and set aside."""


def read_records(spark: SparkSession, parts: Sequence[Sequence[Range]], file_format: FileFormat) -> DataFrame:
    """The records of planned ranges.

    Columns: part int, row int (the place in the plan), uri string, offset long, value binary, fault string.
    """
    plan = {
        "format": "Documents" if file_format == "JSON" else "Lines",
        "maxRecordBytes": MAX_RECORD_BYTES,
        "parts": [
            [{"uri": r.file.uri, "start": r.start, "end": r.end, "size": r.file.size} for r in part] for part in parts
        ],
    }
    return spark.read.format("dev.messagestore.spark.RecordSource").option("plan", json.dumps(plan)).load()
