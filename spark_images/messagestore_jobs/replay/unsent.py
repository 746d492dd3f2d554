"""The error of a replay that has ended, and could not send some of its messages."""

from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.store.errors import RunFailedError


def refuse_unsent(outcome: ReplayOutcome, task: ReplayTask) -> ReplayOutcome:
    """Return the outcome if all was sent.

    Raises:
        RunFailedError: the replay ended, and some messages were lost, or were not as they were stored and the task says
            Fail; the message says how many, and which.
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


def is_stopped_by(failed: int, task: ReplayTask) -> bool:
    """Whether messages that can't be sent end a run that goes on."""
    return bool(failed) and task.on_failed == "Fail"


def _which(count: int, shown: tuple[int, ...]) -> str:
    more = f" and {count - len(shown)} more" if count > len(shown) else ""
    return f": global positions {', '.join(map(str, shown))}{more}" if shown else ""
