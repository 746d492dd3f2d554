"""The archive of Java classes from which a JVM starts: it maps them, and need not load and verify each.

``python -m messagestore_jobs.driver.classes`` makes it beside the jars, by a few small runs. Only a JVM with the same
Java and jars uses it; any other warns and starts without it.

Source: JEP 350, Dynamic CDS Archives.
"""

import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.ingest import IngestTask, Lifecycle
from messagestore_core.contract.purge import Match, PurgeTask, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import MaintainTask, Resource, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.session import LITTLE, class_path, classes_archive, jvm_of, local_session, settings

_RECORD = '{"messageId":"m%d","streamName":"order-%d","type":"Placed","payload":{"n":%d}}\n'
_UPDATE = '{"messageId":"m%d","status":"COMPLETED"}\n'
_NONE = "none\n"
_NOBODY = "http://127.0.0.1:1"


def make() -> None:
    """Make the archive, unless there is one of the same Java and jars. Some JVMs can't write any.

    Raises:
        RuntimeError: one of the runs failed.
    """
    archive = classes_archive()
    stamp = archive.with_suffix(".made-from")
    made_from, stamped = _made_from(), stamp.read_text() if stamp.exists() else ""
    if stamped == _NONE + made_from or (stamped == made_from and archive.exists()):
        return
    sys.stdout.write(f"classes: an archive of Java classes, from which Spark starts faster, into {archive.parent}\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        made = Path(folder, archive.name)
        _run_and_write(made, Path(folder))
        if made.exists():
            made.replace(archive)
        else:
            sys.stdout.write("classes: this JVM wrote no archive; Spark starts without one\n")
            archive.unlink(missing_ok=True)
            made_from = _NONE + made_from
    stamp.write_text(made_from)


def _made_from() -> str:
    """A text that changes with Java and with each jar."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    release = Path(java).resolve().parents[1] / "release" if java else None
    releases = [release.read_text() if release and release.exists() else ""]
    jars = ((path, Path(path).stat()) for path in class_path())
    return "\n".join([*releases, *(f"{path} {at.st_size} {at.st_mtime_ns}" for path, at in jars)])


def _run_and_write(archive: Path, folder: Path) -> None:
    """Carry out small runs in a JVM of their own, which writes the archive at its end."""
    spark = local_session(cores=1, memory="1g", java_options=f'"-XX:ArchiveClassesAtExit={archive}" -Xlog:cds=off')
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    _carry_out(spark, folder / "compiled")
    with settings(spark, LITTLE):
        _carry_out(spark, folder / "interpreted")
    _reach_for_s3(spark)
    spark.stop()
    gateway.proc.stdin.close()
    gateway.proc.wait()


def _carry_out(spark: SparkSession, folder: Path) -> None:
    arriving, updates = folder / "arriving", folder / "updates"
    for path in (arriving, updates):
        path.mkdir(parents=True)
    (arriving / "a.jsonl").write_text("".join(_RECORD % (n, n % 3, n) for n in range(10)) + "no record\n")
    (updates / "a.jsonl").write_text("".join(_UPDATE % n for n in range(3)))
    lifecycle = Lifecycle(source_id="updates", source=FilesSource(uri=f"file://{updates}"))
    ingest = IngestTask(source_id="files", source=FilesSource(uri=f"file://{arriving}"), lifecycle=lifecycle)
    rule = Rule(name="one", match=Match(message_ids=("m1",)), erase=True)
    tasks: tuple[Any, ...] = (
        ingest,
        PurgeTask(mode="Enforce", rules=(rule,), erase_within=timedelta(0)),
        ReplayTask(job_id="replay", destination=FilesDestination(uri=f"file://{folder}/replayed")),
        MaintainTask(),
    )
    owner = Owner(namespace="default", name="classes")
    for number, task in enumerate(tasks):
        document = RunDocument(
            run=f"run-{number}",
            resource=Resource(kind="MessageStream", namespace=owner.namespace, name=owner.name),
            table=Table(uri=f"file://{folder}/store", owner=owner),
            task=task,
        )
        report = execute(document, lambda: spark, Silent(), 0, lambda: datetime.now(UTC))
        if report.error is not None:
            raise RuntimeError(f"{task.kind} failed: {report.error.message}")


def _reach_for_s3(spark: SparkSession) -> None:
    """Load the classes of a client of S3, by a request that nobody answers."""
    jvm = jvm_of(spark)
    conf = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    own = {"endpoint": _NOBODY, "endpoint.region": "us-east-1", "attempts.maximum": "0", "retry.limit": "0"}
    anonymous = {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}
    for name, value in {**own, **anonymous}.items():
        conf.set(f"fs.s3a.{name}", value)
    path = jvm.org.apache.hadoop.fs.Path("s3a://nothing/nothing")
    try:
        path.getFileSystem(conf).exists(path)
    except Py4JJavaError:
        return
    raise RuntimeError(f"something answered at {_NOBODY}")


if __name__ == "__main__":
    make()
