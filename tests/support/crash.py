"""A run in a separate process that is killed at one of its external writes.

If it is killed within a write, it has its own JVM. Before and after a write none of its work goes on in a JVM, so it
uses the tests' JVM, which takes a third of the time: it has its own session there, whose caches are cleared.

Run as ``python -m support.crash JSON``; at the point the process kills itself.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store import fence
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.storage import Storage
from messagestore_jobs import lock
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.session import local_session
from support.ingests import OWNER, Stream
from support.waiting import scaled

NOT_REACHED = 3
_HERE = Path(__file__).parent.parent
PATH = os.pathsep.join(map(str, (_HERE, _HERE.parent / "core", _HERE.parent / "spark_images")))
"""Where a process of a test finds what it imports."""


def crash(stream: Stream, name: str, moment: str, nth: int) -> None:
    """Run an ingest and kill it at the n-th write of a name, before or after it or within it.

    Fails if the run ends before that.
    """
    crash_run(stream.spark, stream.document(), name, moment, nth)


def crash_run(spark: SparkSession, document: RunDocument, name: str, moment: str, nth: int = 1) -> None:
    """As :func:`crash`, for a run of any kind."""
    order = {"document": document.model_dump_json(by_alias=True), "point": [name, moment, nth]}
    _killed(order, {} if moment == "within" else lent_jvm(spark))
    take_back_jvm(spark)


def lent_jvm(spark: SparkSession) -> dict[str, str]:
    """The environment by which another process uses the JVM of a session."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    server = gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(server.port), "PYSPARK_GATEWAY_SECRET": str(server.auth_token)}


def take_back_jvm(spark: SparkSession) -> None:
    """Use a session again after another process had one in its JVM."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    gateway.jvm.org.apache.spark.sql.SparkSession.setDefaultSession(spark._jsparkSession)
    forget_tables(spark)


def forget_tables(spark: SparkSession) -> None:
    """Make a session read tables again that another one has changed."""
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    gateway.jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.catalog.clearCache()


def crash_opening(folder: Path, name: str, moment: str) -> None:
    """As :func:`crash`, for opening a store's folder."""
    _killed({"folder": str(folder), "point": [name, moment, 1]}, {})


def _killed(order: dict[str, Any], environment: dict[str, str]) -> None:
    name, moment, nth = order["point"]
    process = subprocess.run(
        [sys.executable, "-m", "support.crash", json.dumps(order)],
        env={**os.environ, "PYTHONPATH": PATH, **environment},
        start_new_session=True,
        capture_output=True,
        timeout=scaled(180),
    )
    assert process.returncode == -signal.SIGKILL, (
        f"the run ended with {process.returncode} and was not killed {moment} {name} {nth}: "
        f"{process.stderr.decode()[-2000:]}"
    )


def _kill() -> None:
    os.killpg(os.getpgid(0), signal.SIGKILL)


def _killer(name: str, moment: str, nth: int) -> Callable[[str, str], None]:
    seen = {"before": 0, "after": 0}

    def observer(at: str, when: str) -> None:
        if at != name:
            return
        seen[when] += 1
        if seen[when] == nth and when == moment:
            _kill()
        if seen[when] == nth and moment == "within" and when == "before":
            threading.Thread(target=_kill_soon, daemon=True).start()
        if seen[when] == nth and moment == "within" and when == "after":
            _kill()

    return observer


def _kill_soon() -> None:
    time.sleep(random.uniform(0.05, 1.0))
    _kill()


def main() -> None:
    order = json.loads(sys.argv[1])
    fence.observe(_killer(*order["point"]))
    if "document" in order:
        document = RunDocument.model_validate_json(order["document"])
        report = execute(document, _spark, Silent(), wait_seconds=0, clock=lambda: datetime.now(UTC))
        sys.stderr.write(str(report.error))
    else:
        open_folder(HeldStore.of(Table(uri=f"file://{order['folder']}", owner=OWNER), Storage()))
    os._exit(NOT_REACHED)


def _spark() -> SparkSession:
    return borrowed_session() if "PYSPARK_GATEWAY_PORT" in os.environ else local_session(cores=2, memory="1g")


def borrowed_session() -> SparkSession:
    """A session of this process's own in a lent JVM."""
    # The JVM, which goes on here, locks the table, too.
    lock.is_local = lambda uri: False
    gateway = launch_gateway()
    spark = gateway.jvm.org.apache.spark
    java_context = gateway.jvm.JavaSparkContext(spark.SparkContext.getOrCreate())
    context = SparkContext(gateway=gateway, jsc=java_context, conf=SparkConf(_jconf=java_context.getConf()))
    return SparkSession(context, spark.sql.SparkSession.active().newSession())


if __name__ == "__main__":
    main()
