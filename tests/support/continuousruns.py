"""A continuous replay in a process of its own, with its own JVM, as in a pod.

Its folder has the run document, the last report, and a file that tells it to stop. Run as ``python -m
support.continuousruns FOLDER SECONDS``; it looks at the whole logs after so many seconds.
"""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.progress import Silent
from messagestore_jobs import lock
from messagestore_jobs.driver.control import RunControl
from messagestore_jobs.driver.execute import execute
from messagestore_jobs.replay import newest
from messagestore_jobs.session import local_session
from support.background import repeated
from support.crash import PATH
from support.waiting import scaled

_DOCUMENT, _REPORT, _STOP = "run.json", "report.json", "stop"
_TELL_SECONDS = 0.2


class ContinuousRun:
    """The process."""

    def __init__(self, folder: Path, document: RunDocument, look_seconds: float) -> None:
        folder.mkdir()
        self._folder, self._log = folder, (folder / "log").open("wb")
        (folder / _DOCUMENT).write_text(document.model_dump_json(by_alias=True))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.continuousruns", str(folder), str(look_seconds)],
            env={**os.environ, "PYTHONPATH": PATH},
            start_new_session=True,
            stdout=self._log,
            stderr=self._log,
        )

    @property
    def alive(self) -> bool:
        """Whether it goes on."""
        return self._process.poll() is None

    def report(self) -> RunReport | None:
        """The last report; None before the first."""
        path = self._folder / _REPORT
        return RunReport.model_validate_json(path.read_bytes()) if path.exists() else None

    def log(self) -> str:
        """The end of what it said."""
        return (self._folder / "log").read_text()[-3000:]

    def stop(self) -> None:
        """Ask it to end."""
        (self._folder / _STOP).touch()

    def freeze(self) -> None:
        """Stop it and its JVM where they are."""
        os.killpg(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let them go on."""
        os.killpg(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """End it at once, if it hasn't ended."""
        if self.alive:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=scaled(20))
        self._log.close()


def main() -> None:
    """Carry the run out."""
    folder, newest.LOOK_WHOLE_SECONDS = Path(sys.argv[1]), float(sys.argv[2])
    # In a cluster a Lease stands for the locks.
    lock.is_local = lambda uri: False
    document, control = RunDocument.model_validate_json((folder / _DOCUMENT).read_bytes()), RunControl(None)
    began = datetime.now(UTC)

    def write(report: RunReport) -> None:
        (folder / "part").write_text(report.model_dump_json(by_alias=True))
        (folder / "part").replace(folder / _REPORT)

    def tell() -> None:
        if (folder / _STOP).exists():
            control.stop()
        write(RunReport(run=document.run, sequence=0, state="Running", started_at=began, outcome=control.outcome))

    with repeated(tell, _TELL_SECONDS):
        # A continuous replay's driver starts Spark for little data.
        session = partial(local_session, cores=1, memory="1g", little=True)
        report = execute(document, session, Silent(), 0, lambda: datetime.now(UTC), control)
    write(report)
    os._exit(0 if report.error is None else 1)


if __name__ == "__main__":
    main()
