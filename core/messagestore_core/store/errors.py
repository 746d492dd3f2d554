"""What a run can't go on with: a reason constant and words that say what to do."""

from messagestore_core.contract.run_report import Outcome


class RunFailedError(Exception):
    """Ends a run; ``reason`` goes into the report, the condition and the Event, and what was done all the same, too."""

    def __init__(self, reason: str, message: str, outcome: Outcome | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.outcome = outcome


class TableRefusedError(RunFailedError):
    """The table folder is not this stream's to write to; nothing in it was touched."""

    def __init__(self, message: str) -> None:
        super().__init__("TableRefused", message)


class TableBusyError(RunFailedError):
    """Another run holds the right to write."""

    def __init__(self, message: str) -> None:
        super().__init__("TableBusy", message)
