"""What a replay could not send, told once it has sent all else."""

from messagestore_jobs.contract.run_document import ReplayTask
from messagestore_jobs.contract.run_report import ReplayOutcome
from messagestore_jobs.store.errors import RunFailedError


def refuse_unsent(outcome: ReplayOutcome, task: ReplayTask) -> ReplayOutcome:
    """The outcome, where all was sent that was to be.

    Raises:
        RunFailedError: it is over, and some of the selection was lost, or was not as it was stored and the task doesn't
            ask to go on; the words say how much, and which.
    """
    reached, what = outcome.progress, "dead letters" if task.origin == "DeadLetters" else "messages"
    if outcome.complete and reached.lost:
        raise RunFailedError(
            "MessagesLost",
            f"{reached.lost} of {outcome.selection.messages} selected {what} could not be sent, as they are neither in "
            f"the store any more nor erased{_which(reached.lost, reached.first_lost_positions)}. A purge removed them, "
            "and an erasure the table's versions from before it; all others were sent. Restore those from an archive "
            "if they are needed",
            outcome,
        )
    if outcome.complete and reached.failed and task.on_failed == "Fail":
        raise RunFailedError(
            "MessagesBroken",
            f"{reached.failed} of {outcome.selection.messages} selected {what} were not sent, as they are not as they "
            f"were stored: a digest or seal is broken, or a payload is gone"
            f"{_which(reached.failed, reached.first_failed_positions)}; all others were sent. Find out who changed the "
            "store, or have a new replay pass over them with spec.onFailed: Continue",
            outcome,
        )
    return outcome


def _which(count: int, shown: tuple[int, ...]) -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f": global positions {', '.join(map(str, shown))}{more}" if shown else ""
