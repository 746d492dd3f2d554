"""Errors that end a run: a constant reason, and a message that says what to do."""

from collections.abc import Callable

from messagestore_core.contract.run_report import Outcome

WAY_BACK = (
    "Find out who writes to the folder, then take all tables back from one backup, or accept them as they are by "
    "`messagestore repair`: docs/recovery.md"
)
"""What to do about tables that are not as the store's runs left them."""
RUN_STOPPED = "RunStopped"
OUT_OF_MEMORY = "OutOfMemory"
KAFKA_UNREACHABLE = "KafkaUnreachable"
HTTP_UNREACHABLE = "HttpUnreachable"


class RunFailedError(Exception):
    """Ends a run; report, condition and Event have ``reason``, and the report has ``outcome``: what was done before."""

    def __init__(self, reason: str, message: str, outcome: Outcome | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.outcome = outcome


class TableRefusedError(RunFailedError):
    """This stream may not write to the table folder; nothing in it was touched."""

    def __init__(self, message: str) -> None:
        super().__init__("TableRefused", message)


class TableBusyError(RunFailedError):
    """Another run holds the right to write."""

    def __init__(self, message: str) -> None:
        super().__init__("TableBusy", message)


class RunStoppedError(RunFailedError):
    """The run was told to stop, and ended between two commits."""

    def __init__(self) -> None:
        super().__init__(RUN_STOPPED, "told to stop; it ended between two commits, and the next run goes on from there")


def end_if_stopped(stopped: Callable[[], bool]) -> None:
    """End the run here if it was told to stop.

    Raises:
        RunStoppedError: it was.
    """
    if stopped():
        raise RunStoppedError
