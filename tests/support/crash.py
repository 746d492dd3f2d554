"""A run in a process of its own that is killed at one of its external writes.

Run as ``python -m support.crash JSON``; the process never ends by itself where the point is reached.
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

from pyspark.sql import SparkSession

from messagestore_jobs.contract.run_document import RunDocument
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.progress import Silent
from messagestore_jobs.session import local_session
from messagestore_jobs.store import external
from messagestore_jobs.store.folder import open_folder
from support.ingests import Stream

NOT_REACHED = 3
_HERE = Path(__file__).parent.parent


def crash(folder: Path, settings: dict[str, Any], name: str, moment: str, nth: int, *, with_spark: bool = True) -> None:
    """Run an ingest and kill it, its JVM with it, at the n-th write of a name, before or after it or within it.

    Fails when the run ended without coming there.
    """
    _killed({"folder": str(folder), "settings": settings, "spark": with_spark}, name, moment, nth)


def crash_run(document: RunDocument, name: str, moment: str, nth: int = 1) -> None:
    """As :func:`crash`, for a run of any kind."""
    _killed({"document": document.model_dump_json(by_alias=True)}, name, moment, nth)


def _killed(order: dict[str, Any], name: str, moment: str, nth: int) -> None:
    order["point"] = [name, moment, nth]
    process = subprocess.run(
        [sys.executable, "-m", "support.crash", json.dumps(order)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_HERE), str(_HERE.parent / "spark_images")])},
        start_new_session=True,
        capture_output=True,
        timeout=180,
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
    external.observe(_killer(*order["point"]))
    if "document" in order:
        document = RunDocument.model_validate_json(order["document"])
        report = execute(document, _spark, Silent(), wait_seconds=0, clock=lambda: datetime.now(UTC))
        sys.stderr.write(str(report.error))
    else:
        _ingest(order)
    os._exit(NOT_REACHED)


def _ingest(order: dict[str, Any]) -> None:
    spark = _spark() if order["spark"] else None
    stream = Stream(spark, Path(order["folder"]), order["settings"])
    if spark is None:
        open_folder(stream.table)
    else:
        stream.run()


def _spark() -> SparkSession:
    return local_session(cores=2, memory="1g")


if __name__ == "__main__":
    main()
