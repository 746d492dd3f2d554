"""A driver starts no JVM for nothing to do, and no executors for little."""

import os
import subprocess
import sys
from pathlib import Path

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.ingest import IngestOutcome, IngestTask
from messagestore_core.contract.purge import PurgeTask, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.run_report import Outcome, RunReport, Usage
from messagestore_core.contract.stores import Owner, Table
from messagestore_jobs.session import class_path, classes_archive
from support.ingests import lines, record
from support.waiting import scaled

NO_CLUSTER = "spark.master=k8s://https://127.0.0.1:1\nspark.kubernetes.driver.pod.name=driver\nspark.driver.host=none\n"


class Driver:
    """Runs of one stream, each as in a pod with the epoch of its grant."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._epoch = folder, 0
        self.used: Usage | None = None
        self.landing = folder / "landing"
        self.landing.mkdir()

    def ingest(self, properties: str, **environment: str) -> IngestOutcome:
        """The outcome of an ingest of what has arrived."""
        task = IngestTask(source_id="landing", source=FilesSource(uri=f"file://{self.landing}"))
        outcome = self.run(task, properties, **environment)
        assert isinstance(outcome, IngestOutcome)
        return outcome

    def run(self, task: IngestTask | PurgeTask | ReplayTask, properties: str, **environment: str) -> Outcome:
        """The outcome of a run."""
        self._epoch += 1
        run, log, settings = (self.folder / name for name in ("run.json", "log", "spark.properties"))
        run.write_text(self._document(task).model_dump_json(by_alias=True))
        log.touch()
        of_image = (
            f"spark.driver.extraClassPath={os.pathsep.join(class_path())}\n"
            f"spark.driver.extraJavaOptions=-XX:SharedArchiveFile={classes_archive()}\n"
        )
        settings.write_text(f"{properties}{of_image}spark.app.name=orders\n")
        pod = {
            "MESSAGESTORE_RUN_DOCUMENT": str(run),
            "MESSAGESTORE_TERMINATION_LOG": str(log),
            "MESSAGESTORE_EXECUTORS_FROM_BYTES": str(1 << 20),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {settings} --deploy-mode client pyspark-shell",
        }
        command = [sys.executable, "-m", "messagestore_jobs.driver"]
        done = subprocess.run(
            command, env={**os.environ, **pod, **environment}, capture_output=True, text=True, timeout=scaled(120)
        )
        report = RunReport.model_validate_json(log.read_text())
        assert (done.returncode, report.error) == (0, None), done.stderr[-4000:]
        assert report.outcome is not None
        self.used = report.usage
        return report.outcome

    def _document(self, task: IngestTask | PurgeTask | ReplayTask) -> RunDocument:
        return RunDocument(
            run=f"orders-{self._epoch}",
            resource=Resource(kind="MessageStream", namespace="default", name="orders"),
            table=Table(
                uri=f"file://{self.folder}/store",
                owner=Owner(namespace="default", name="orders"),
                # A replay to files is granted no table.
                epoch=None if isinstance(task, ReplayTask) else self._epoch,
            ),
            task=task,
        )


def _is_of_spark(used: Usage | None) -> bool:
    """Whether tasks counted bytes, and the JVM its CPU time."""
    assert used.executor_cpu_seconds == 0
    return bool(used.bytes_written) and used.driver_cpu_seconds > 1


def test_a_run_starts_only_what_its_work_needs(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    (driver.landing / "1.jsonl").write_bytes(lines(record("m1"), record("m2")))
    first = driver.ingest("spark.master=local[1]\n")
    assert first.counts.stored == 2
    assert _is_of_spark(driver.used)

    nothing = driver.ingest(NO_CLUSTER, PATH="", JAVA_HOME="/nowhere")
    assert (nothing.counts.received, nothing.table) == (0, first.table)
    assert not _is_of_spark(driver.used)

    (driver.landing / "2.jsonl").write_bytes(lines(record("m2"), record("m3")))
    little = driver.ingest(NO_CLUSTER)
    assert (little.counts.stored, little.counts.duplicates, little.table.messages) == (1, 1, 3)

    again = FilesDestination(uri=f"file://{tmp_path}/again")
    replay = driver.run(ReplayTask(job_id="again", destination=again), NO_CLUSTER)
    assert replay.progress.replayed == 3

    purge = driver.run(PurgeTask(mode="Enforce", rules=(Rule(name="all", statuses=("RECEIVED",)),)), NO_CLUSTER)
    assert (purge.preview.messages, purge.table.messages) == (3, 0)
