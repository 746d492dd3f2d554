"""A driver's process as in a pod, which is told to end at one of its steps.

It has its own session in the tests' JVM. Run as ``python -m support.leaving NAME``; before the write of that name the
process gets SIGTERM, and goes on once it has heard that.
"""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.store import fence
from messagestore_jobs import session
from messagestore_jobs.driver import main as driver
from messagestore_jobs.driver.control import RunControl
from support.crash import PATH, borrowed_session, lent_jvm, take_back_jvm
from support.waiting import scaled

_PATIENCE_SECONDS = 60


def leave_at(spark: SparkSession, document: RunDocument, name: str, folder: Path) -> RunReport:
    """Carry a run out in a process that gets SIGTERM before a write; return its termination message."""
    message, file = folder / f"{document.run}.message", folder / f"{document.run}.json"
    message.touch()
    file.write_text(document.model_dump_json(by_alias=True))
    pod = {"MESSAGESTORE_RUN_DOCUMENT": str(file), "MESSAGESTORE_TERMINATION_LOG": str(message)}
    process = subprocess.run(
        [sys.executable, "-m", "support.leaving", name],
        env={**os.environ, "PYTHONPATH": PATH, **lent_jvm(spark), **pod},
        capture_output=True,
        text=True,
        timeout=scaled(180),
    )
    take_back_jvm(spark)
    assert process.returncode == 1, process.stderr[-3000:]
    return RunReport.model_validate_json(message.read_text())


def _main() -> int:
    awaited, heard = sys.argv[1], threading.Event()
    stop = RunControl.stop

    def told(control: RunControl) -> None:
        stop(control)
        heard.set()

    def observer(name: str, moment: str) -> None:
        if (name, moment) == (awaited, "before") and not heard.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
            assert heard.wait(_PATIENCE_SECONDS)

    RunControl.stop = told  # type: ignore[method-assign]
    session.cluster_session = borrowed_session
    fence.observe(observer)
    return driver.main()


if __name__ == "__main__":
    code = _main()
    sys.stderr.flush()
    # Its session is one of the tests' JVM, which goes on.
    os._exit(code)
