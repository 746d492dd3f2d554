"""Local runs on the shared session."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from support.local_runs import LocalRuns


@pytest.fixture
def local_run(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> LocalRuns:
    return LocalRuns(tmp_path / "manifests", spark, monkeypatch)
