"""Where a run is, for whoever asks from another thread; every line for people goes to the log too."""

import logging

from messagestore_jobs.contract.run_report import RunProgress

_log = logging.getLogger(__name__)


class Tracker:
    """Listens to a run."""

    def __init__(self) -> None:
        self.progress = RunProgress(step="start")

    def step(self, name: str, total: int | None = None) -> None:
        """A new step begins."""
        _log.info("%s", name)
        self.progress = RunProgress(step=name, total=total, text=self.progress.text)

    def advance(self, done: int) -> None:
        """``done`` more of the current step."""
        self.progress = self.progress.model_copy(update={"done": self.progress.done + done})

    def say(self, text: str) -> None:
        """A line for people; the last one is told."""
        _log.info("%s", text)
        self.progress = self.progress.model_copy(update={"text": text})
