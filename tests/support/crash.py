"""A run in a separate process that is killed at one of its external writes.

If it is killed within a write, it has its own JVM. Before and after a write none of its work goes on in a JVM, so it
uses the tests' JVM, which takes a third of the time: it has its own session there, whose caches are cleared.

Run as ``python -m support.crash JSON``; at the point the process kills itself. With ``leave`` it is a driver's process
as in a pod: before the write of that name it gets SIGTERM, and goes on once it has heard that.
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
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store import fence
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.storage import Storage
from messagestore_jobs import lock, session
from messagestore_jobs.driver import main as driver
from messagestore_jobs.driver.control import RunControl
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.session import FEW_ROWS, local_session
from support.ingests import OWNER, Stream
from support.waiting import scaled

NOT_REACHED = 3
_PATIENCE_SECONDS = 60
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
    server = gateway.gateway_parameters
    return {"PYSPARK_GATEWAY_PORT": str(server.port), "PYSPARK_GATEWAY_SECRET": str(server.auth_token)}


def take_back_jvm(spark: SparkSession) -> None:
    """Use a session again after another process had one in its JVM."""
    gateway = spark.sparkContext._gateway
    gateway.jvm.org.apache.spark.sql.SparkSession.setDefaultSession(spark._jsparkSession)
    forget_tables(spark)


def forget_tables(spark: SparkSession) -> None:
    """Make a session read tables again that another one has changed."""
    gateway = spark.sparkContext._gateway
    gateway.jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    spark.catalog.clearCache()


def crash_opening(folder: Path, name: str, moment: str) -> None:
    """As :func:`crash`, for opening a store's folder."""
    _killed({"folder": str(folder), "point": [name, moment, 1]}, {})


def _killed(order: dict[str, Any], environment: dict[str, str]) -> None:
    name, moment, nth = order["point"]
    code, errors = _in_process(order, environment)
    assert code == -signal.SIGKILL, f"the run ended with {code} and was not killed {moment} {name} {nth}: {errors}"


def leave_at(spark: SparkSession, document: RunDocument, name: str, folder: Path) -> RunReport:
    """Carry a run out in a process that gets SIGTERM before a write; return its termination message."""
    message, file = folder / f"{document.run}.message", folder / f"{document.run}.json"
    message.touch()
    file.write_text(document.model_dump_json(by_alias=True))
    pod = {"MESSAGESTORE_RUN_DOCUMENT": str(file), "MESSAGESTORE_TERMINATION_LOG": str(message)}
    code, errors = _in_process({"leave": name}, lent_jvm(spark) | pod)
    take_back_jvm(spark)
    assert code == 1, errors
    return RunReport.model_validate_json(message.read_text())


def _in_process(order: dict[str, Any], environment: dict[str, str]) -> tuple[int, str]:
    """Carry out an order in a process of its own; return its exit code and the end of its log."""
    process = subprocess.run(
        [sys.executable, "-m", "support.crash", json.dumps(order)],
        env={**os.environ, "PYTHONPATH": PATH, **environment},
        start_new_session=True,
        capture_output=True,
        timeout=scaled(180),
    )
    return process.returncode, process.stderr.decode()[-3000:]


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
    if "leave" in order:
        code = _leave(order["leave"])
        sys.stderr.flush()
        # Its session is one of the tests' JVM, which goes on.
        os._exit(code)
    fence.observe(_killer(*order["point"]))
    if "document" in order:
        document = RunDocument.model_validate_json(order["document"])
        report = execute(document, _spark, Silent(), wait_seconds=0, clock=lambda: datetime.now(UTC))
        sys.stderr.write(str(report.error))
    else:
        open_folder(HeldStore.of(Table(uri=f"file://{order['folder']}", owner=OWNER), Storage()))
    os._exit(NOT_REACHED)


def _leave(awaited: str) -> int:
    heard, stop = threading.Event(), RunControl.stop

    def told(control: RunControl) -> None:
        stop(control)
        heard.set()

    def observer(name: str, moment: str) -> None:
        if (name, moment) == (awaited, "before") and not heard.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard.wait(_PATIENCE_SECONDS)

    RunControl.stop = told
    session.cluster_session = lambda **_: borrowed_session()
    fence.observe(observer)
    return driver.main()


def _spark() -> SparkSession:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return borrowed_session()
    return local_session(cores=2, memory="1g", settings=FEW_ROWS)


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
