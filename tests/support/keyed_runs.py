"""All kinds of runs with a key, with driver and executor as separate processes, as in a cluster.

Run as ``python -m support.keyed_runs FOLDER``. Spark's event log goes to ``FOLDER/events``; all plans and settings are
printed, and Python logs at level DEBUG, the JVM at INFO.
"""

import logging
import os
import secrets
import shlex
import sys
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.purge import Match, Rule, Scrub
from messagestore_core.contract.records import Integrity
from messagestore_core.progress import Silent
from messagestore_core.store.handle import Store
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.integrity import is_sealed
from messagestore_jobs.rows.messages import read_messages
from messagestore_jobs.session import class_path, classes_archive, cluster_session
from support.ingests import START, Stream, lines, record
from support.purges import purge_document
from support.replays import files_replay

SEAL, SCRUB = "MESSAGESTORE_KEY_SEAL", "MESSAGESTORE_KEY_SCRUB"
SEALED = Integrity(key_environment=SEAL)
EXPLAINED = ("simple", "extended", "codegen", "cost", "formatted")


def main(folder: Path) -> None:
    """Ingest, replay, scrub and erase."""
    logging.basicConfig(level=logging.DEBUG)
    (folder / "events").mkdir()
    spark = _session(folder)
    spark.sparkContext.setLogLevel("INFO")
    stream = Stream(spark, folder, {"integrity": SEALED, "claim_check_bytes": 100})
    big = b'{"who": "me", "long": "' + b"x" * 200 + b'"}'
    stream.arrive("a.jsonl", lines(record("m1", headers={"a": "1"}), record("m2", payload=big), record("m3")))
    everything = (Rule(name="all", max_messages_per_stream=0),)
    scrub = Scrub(payload_paths=("$.who",), headers=("a",), method="Hash", key_environment=SCRUB)
    hash_it = {"action": "Scrub", "scrub": scrub, "rules": everything, "integrity": SEALED}
    erased = Rule(name="one", match=Match(message_ids=("m3",)), erase=True)
    for document in (
        stream.document(),
        purge_document(stream.table, START, run="scrub-1", **hash_it),
        files_replay(stream.table, folder / "out", integrity=SEALED),
        purge_document(stream.table, START, run="erase-1", rules=(erased,)),
    ):
        report = execute(document, lambda: spark, Silent(), 0, lambda: START)
        sys.stdout.write(report.model_dump_json())
        if report.error is not None:
            raise SystemExit(1)
    _tell_of(read_messages(spark, Store(stream.table.uri)).withColumn("sealed", is_sealed(SEALED)), spark)
    spark.stop()


def _session(folder: Path) -> SparkSession:
    """The session of a driver's pod, except for the cluster manager, which needs the run's secret."""
    jars = os.pathsep.join(class_path())
    submitted = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{folder}/events",
        "spark.eventLog.compress": "false",
        "spark.driver.extraClassPath": jars,
        "spark.executor.extraClassPath": jars,
        "spark.driver.extraJavaOptions": f"-XX:SharedArchiveFile={classes_archive()}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.authenticate.secret": secrets.token_hex(32),
        # What somebody might have set.
        "spark.authenticate": "false",
        "spark.network.crypto.enabled": "false",
        "spark.io.encryption.enabled": "false",
    }
    options = shlex.join(part for name, value in submitted.items() for part in ("--conf", f"{name}={value}"))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--master local-cluster[1,1,1024] {options} pyspark-shell"
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    return cluster_session()


def _tell_of(rows: DataFrame, spark: SparkSession) -> None:
    for mode in EXPLAINED:
        rows.where("sealed").explain(mode)
    for name, value in spark.sparkContext.getConf().getAll():
        sys.stdout.write(f"\n{name}={value}\n")
    spark.sql("SET -v").show(10_000, truncate=False)
    sys.stdout.write(str(rows.agg(F.count_if("sealed")).collect()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
