"""Why a run is stuck or has failed: reason and message, from its pods, its application and its report."""

import re
from datetime import timedelta

from messagestore_core.contract.base import RunError
from messagestore_core.contract.run_report import RunReport
from messagestore_core.text import clipped, refusal_in
from messagestore_operator.decide.snapshot import REFUSED, AppState, ObservedRun, Waiting
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.words import span

_LONGEST = 1000
_OUT_OF_MEMORY = 137
_IMAGE = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
    }
)
_CONFIG = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_LOOPING = frozenset({"CrashLoopBackOff"})


def waiting_error(run: ObservedRun) -> RunError | None:
    """Why the pods of a run that has not ended don't run; None if no cause is known."""
    waiting = _waiting(run)
    if waiting is None:
        return None
    who = "driver" if run.driver is not None and run.driver.waiting is waiting else "executors"
    if waiting.reason == "Unschedulable":
        return RunError(reason=Reason.UNSCHEDULABLE, message=_line(f"no node for the {who}: {waiting.message}"))
    if waiting.reason == REFUSED:
        message = _line(f"the API server refuses executors: {waiting.message}")
        return RunError(reason=Reason.EXECUTORS_REFUSED, message=message)
    if waiting.reason in _IMAGE:
        return RunError(reason=Reason.IMAGE_PULL_FAILED, message=_line(f"image of the {who}: {_said(waiting)}"))
    if waiting.reason in _CONFIG:
        return RunError(reason=Reason.CONFIG_MISSING, message=_line(f"the {who} can't be started: {_said(waiting)}"))
    if waiting.reason in _LOOPING:
        return RunError(reason=Reason.POD_FAILED, message=_line(f"the {who} fail again and again: {_said(waiting)}"))
    return None


def failure(run: ObservedRun) -> RunError:
    """Why a run failed: the most specific known cause."""
    report = run.report
    if report is not None and report.error is not None:
        return report.error
    driver = run.driver
    if (memory := _out_of_memory(run)) is not None:
        return memory
    if driver is not None and driver.reason == "Evicted":
        return RunError(reason=Reason.EVICTED, message=_line(f"the driver was evicted: {driver.message or ''}"))
    if driver is not None and driver.termination_message and driver.termination_message.strip():
        return RunError(reason=Failure.RUN_FAILED, message=last_line(driver.termination_message))
    if (waiting := waiting_error(run)) is not None:
        return waiting
    return _failure_by_state(run)


def report_missing(run: ObservedRun) -> RunError:
    """The error of a run whose application succeeded and that left no final report."""
    why = run.report_problem or "no final report of it was found"
    return RunError(reason=Reason.REPORT_MISSING, message=_line(f"the run ended, but {why}"))


def start_deadline(run: ObservedRun, deadline: timedelta) -> RunError:
    """The error of a run that did not start in time."""
    known, passed = waiting_error(run), span(deadline)
    if known is not None:
        return RunError(reason=known.reason, message=_line(f"not running after {passed}: {known.message}"))
    if run.driver is None and run.state is AppState.PENDING:
        message = f"no driver was created within {passed}: does the Spark operator run, and watch this namespace?"
        return RunError(reason=Reason.START_DEADLINE_EXCEEDED, message=_line(f"{message} {run.message}".strip()))
    if run.driver is not None and run.driver.phase == "Running":
        message = f"no executor runs after {passed}: kubectl describe pod says what they wait for"
        return RunError(reason=Reason.START_DEADLINE_EXCEEDED, message=message)
    return RunError(reason=Reason.START_DEADLINE_EXCEEDED, message=f"the driver does not run after {passed}")


def progress_words(report: RunReport | None) -> str | None:
    """The progress that a run reports, in one short line."""
    progress = report.progress if report else None
    if progress is None:
        return None
    unit = f" {progress.unit}" if progress.unit else ""
    done = f": {progress.done} of {progress.total}{unit}" if progress.total is not None else ""
    said = f"; {progress.text}" if progress.text else ""
    return _line(f"{progress.step}{done}{said}") or None


def last_line(text: str) -> str:
    """The last line with content; of a stack trace, the exception's."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if not re.match(r"(at |\.\.\. \d+ more|File \"|Traceback)", line)]
    causes = [line.removeprefix("Caused by: ") for line in telling if line.startswith("Caused by: ")]
    said = (causes or telling or lines or ["the driver gave no reason"])[-1]
    return _line(refusal_in(said) or said)


def _waiting(run: ObservedRun) -> Waiting | None:
    if run.driver is not None and run.driver.waiting is not None:
        return run.driver.waiting
    return run.executors_waiting


def _out_of_memory(run: ObservedRun) -> RunError | None:
    """The error with the pod whose memory was too small, if that ended the run."""
    driver = run.driver
    if driver is not None and (driver.termination_reason == "OOMKilled" or driver.exit_code == _OUT_OF_MEMORY):
        who = "driver"
    elif re.search(r"executors were lost:.*OOMKilled", run.message):
        who = "executor"
    elif re.search(r"OOMKilled|ExitCode:? ?137\b", run.message):
        who = "driver"
    else:
        return None
    words = f"the {who} ran out of memory and was killed; give spec.spark.{who}.memory more"
    return RunError(reason=Failure.OUT_OF_MEMORY, message=words)


def _failure_by_state(run: ObservedRun) -> RunError:
    if run.state is AppState.SUBMISSION_FAILED:
        return RunError(reason=Reason.SUBMISSION_FAILED, message=last_line(run.message))
    driver = run.driver
    if driver is None:
        said = f": {run.message}" if run.message else ""
        return RunError(reason=Reason.DRIVER_LOST, message=_line(f"the driver's pod is gone{said}"))
    if driver.exit_code is not None:
        said = f"; the application says: {run.message}" if run.message else ""
        return RunError(
            reason=Failure.RUN_FAILED,
            message=_line(f"the driver ended with exit code {driver.exit_code} and gave no reason{said}"),
        )
    said = run.message or driver.message or driver.reason or ""
    return RunError(reason=Failure.RUN_FAILED, message=_line(said) if said else "the driver failed and gave no reason")


def _said(waiting: Waiting) -> str:
    return f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason


def _line(text: str) -> str:
    """One line of printable text: what pods and drivers report is untrusted input."""
    shown = "".join(character if character.isprintable() else " " for character in " ".join(text.split()))
    return clipped(shown, _LONGEST)
