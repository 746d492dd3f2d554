"""A session's JVM maps Spark's classes from an archive."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


def spark_starts(class_path: str, options: str, sharing: str) -> bool:
    """Whether Spark's main class starts; with sharing ``on`` a JVM that can't use the archive does not."""
    home = os.environ.get("JAVA_HOME")
    command = [f"{home}/bin/java" if home else "java", f"-Xshare:{sharing}", *shlex.split(options), "-cp", class_path]
    return subprocess.run([*command, "org.apache.spark.deploy.SparkSubmit", "--version"], check=False).returncode == 0


@pytest.fixture
def options(spark: SparkSession) -> str:
    found = spark.sparkContext.getConf().get("spark.driver.extraJavaOptions") or ""
    assert "-XX:SharedArchiveFile=" in found
    return found


@pytest.fixture
def class_path(spark: SparkSession) -> str:
    return spark.sparkContext.getConf().get("spark.driver.extraClassPath") or ""


def test_the_archive_is_of_the_session_s_java_and_jars(class_path: str, options: str) -> None:
    assert spark_starts(class_path, options, "on")


def test_with_other_jars_spark_starts_without_it(class_path: str, options: str, tmp_path: Path) -> None:
    first, rest = class_path.split(os.pathsep, 1)
    other = tmp_path / "other.jar"
    other.write_bytes(Path(first).read_bytes())
    path = os.pathsep.join([str(other), rest])
    assert not spark_starts(path, options, "on")
    assert spark_starts(path, options, "auto")
