"""What a run used, as its report and a status have it."""

import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from messagestore_core.contract.run_report import Usage
from messagestore_jobs.driver.usage import Meter, of_container

SPARK = Usage(driver_cpu_seconds=1, executor_cpu_seconds=0.25, bytes_written=7)


def test_without_spark_the_usage_is_the_cpu_time_of_this_process() -> None:
    meter, end = Meter(), time.process_time() + 0.05
    while time.process_time() < end:
        pass
    usage = meter.usage()
    assert 0.05 <= usage.driver_cpu_seconds < 5
    assert (usage.executor_cpu_seconds, usage.bytes_written) == (0, None)


def test_usage_covers_all_processes_of_the_container(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 8512345\nuser_usec 8000000\nsystem_usec 512345\n")
    assert of_container(SPARK, tmp_path) == SPARK
    (tmp_path / "cgroup.type").write_text("domain\n")
    assert of_container(SPARK, tmp_path) == SPARK.model_copy(update={"driver_cpu_seconds": 8.512})
    assert of_container(None, tmp_path) == Usage(driver_cpu_seconds=8.512)


def test_usage_is_also_read_from_control_groups_version_1(tmp_path: Path) -> None:
    (tmp_path / "cpuacct").mkdir()
    (tmp_path / "cpuacct" / "cpuacct.usage").write_text("8512345678\n")
    assert of_container(SPARK, tmp_path) == SPARK.model_copy(update={"driver_cpu_seconds": 8.512})
    (tmp_path / "cpuacct" / "release_agent").touch()
    assert of_container(SPARK, tmp_path) == SPARK


def test_a_status_has_the_seconds_of_driver_and_executors_together() -> None:
    assert SPARK.cpu_seconds == 1.2


@pytest.mark.parametrize("figure", [-1, float("nan"), float("inf"), "1"])
def test_an_impossible_usage_is_refused(figure: object) -> None:
    with pytest.raises(ValidationError):
        Usage.model_validate({"driverCpuSeconds": figure})
