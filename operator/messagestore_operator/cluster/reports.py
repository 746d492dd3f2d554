"""Reads the report of a driver, which is untrusted input.

A driver applies users' rules to users' data. So a report is limited in size, checked against the contract, and accepted
only for the run of its ConfigMap. Fields that this release doesn't know are left out: the run's image may be newer, as
after a rollback of the operator.
"""

from collections import OrderedDict
from dataclasses import dataclass

from pydantic import ValidationError

from messagestore_core.contract.run_report import RunReport
from messagestore_operator.kube.objects import ApiObject, at
from messagestore_operator.names import REPORT

CONTROL = "control.json"
DOCUMENT = "run.json"
MAX_BYTES = 64 << 10
_REMEMBERED = 512


@dataclass(frozen=True)
class Reading:
    """A report, or why it could not be read; neither if none has been written."""

    report: RunReport | None = None
    problem: str | None = None


NO_READING = Reading()


def read_report(text: object, run: str) -> Reading:
    """Read the report of one run.

    Args:
        text: untrusted input.
        run: the run that it must name.
    """
    if text is None or text == "":
        return Reading()
    content = text.encode(errors="replace") if isinstance(text, str) else b""
    if not 0 < len(content) <= MAX_BYTES:
        return Reading(problem=f"the report of run {run} is longer than {MAX_BYTES} bytes, or no text")
    try:
        report = RunReport.model_validate_json(content, extra="ignore")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))[:200] or "the whole"
        return Reading(problem=f"the report of run {run} can't be read: {where}: {first['msg']}")
    if report.run != run:
        return Reading(problem=f"the report of run {run} names another run")
    return Reading(report)


def newest(*reports: RunReport | None) -> RunReport | None:
    """The report with the highest sequence; the first of several with the same."""
    return max((report for report in reports if report is not None), key=lambda report: report.sequence, default=None)


class Reports:
    """Reads reports from ConfigMaps, each version once."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, Reading]] = OrderedDict()

    def of(self, config_map: ApiObject | None, run: str) -> Reading:
        """The report in a run's ConfigMap."""
        if config_map is None:
            return Reading()
        uid, version = (str(at(config_map, "metadata", key)) for key in ("uid", "resourceVersion"))
        known = self._known.get(uid)
        if known is not None and known[0] == version:
            return known[1]
        reading = read_report(at(config_map, "data", REPORT), run)
        self._known[uid] = (version, reading)
        self._known.move_to_end(uid)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return reading
