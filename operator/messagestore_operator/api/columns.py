"""The columns of ``kubectl get``, which the API server and the command line print in the same way.

Columns are data; cells are printed as kubectl prints them, including ages.
"""

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from messagestore_operator.ages import age

ColumnType = Literal["string", "integer", "number", "date"]


@dataclass(frozen=True)
class PrinterColumn:
    """One column: the value at a JSONPath of the resource."""

    name: str
    type: ColumnType
    json_path: str
    wide: bool = False

    def to_schema(self) -> dict[str, Any]:
        """The column as an item of additionalPrinterColumns."""
        shown = {"name": self.name, "type": self.type, "jsonPath": self.json_path}
        return {**shown, "priority": 1} if self.wide else shown


_READY = '.status.conditions[?(@.type=="Ready")]'
_SENT = '.status.destinations[?(@.name=="")]'
_STATE = (
    PrinterColumn("READY", "string", f"{_READY}.status"),
    PrinterColumn("PHASE", "string", ".status.phase"),
)
_REASON = PrinterColumn("REASON", "string", f"{_READY}.reason", wide=True)
_AGE = PrinterColumn("AGE", "date", ".metadata.creationTimestamp")

COLUMNS: Mapping[str, tuple[PrinterColumn, ...]] = {
    "MessageStream": (
        *_STATE,
        PrinterColumn("MESSAGES", "integer", ".status.table.messages"),
        PrinterColumn("LAG", "string", ".status.lag.summary"),
        PrinterColumn("DEAD", "integer", ".status.table.deadLetters"),
        PrinterColumn("LAST-BATCH", "date", ".status.lastBatchTime"),
        PrinterColumn("OLDEST", "date", ".status.table.oldestMessageTime"),
        _AGE,
        PrinterColumn("BYTES", "integer", ".status.table.bytes", wide=True),
        PrinterColumn("POSITION", "integer", ".status.table.lastGlobalPosition", wide=True),
        _REASON,
    ),
    "RetentionPolicy": (
        *_STATE,
        PrinterColumn("STREAM", "string", ".status.streamSummary"),
        PrinterColumn("MODE", "string", ".spec.mode"),
        PrinterColumn("HELD", "integer", ".status.held"),
        PrinterColumn("LAST-PURGE", "date", ".status.lastPurgeTime"),
        PrinterColumn("PURGED", "integer", ".status.purged"),
        # No date column: kubectl prints a time in the future as <invalid>.
        PrinterColumn("NEXT", "string", ".status.nextRunTime"),
        _AGE,
        _REASON,
    ),
    "ReplayJob": (
        *_STATE,
        PrinterColumn("STREAM", "string", ".spec.streamRef.name"),
        PrinterColumn("REPLAYED", "integer", ".status.progress.replayed"),
        PrinterColumn("TOTAL", "integer", ".status.selection.messages"),
        PrinterColumn("RATE", "number", ".status.progress.messagesPerSecond"),
        PrinterColumn("DESTINATION", "string", ".status.destination"),
        _AGE,
        PrinterColumn("CURSOR", "integer", f"{_SENT}.cursor.globalPosition", wide=True),
        PrinterColumn("LAG", "integer", f"{_SENT}.lag.records", wide=True),
        _REASON,
    ),
}


def header(kind: str, *, wide: bool = False) -> list[str]:
    """The first line of ``kubectl get``."""
    return ["NAME", *(column.name for column in _shown(kind, wide))]


def cells(resource: Mapping[str, Any], now: dt.datetime, *, wide: bool = False) -> list[str]:
    """The resource's line of ``kubectl get``, as it would be printed at a time."""
    shown = _shown(str(resource["kind"]), wide)
    return [str(resource["metadata"]["name"]), *(_cell(column, resource, now) for column in shown)]


def _shown(kind: str, wide: bool) -> list[PrinterColumn]:
    return [column for column in COLUMNS[kind] if wide or not column.wide]


def _cell(column: PrinterColumn, resource: Mapping[str, Any], now: dt.datetime) -> str:
    value = _find(resource, column.json_path)
    if value is None:
        return ""
    if column.type == "date":
        return age(str(value), now)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _find(value: Any, path: str) -> Any:
    for name, key, wanted in re.findall(r'\.(\w+)|\[\?\(@\.(\w+)=="(\w*)"\)\]', path):
        if name:
            value = value.get(name) if isinstance(value, Mapping) else None
        else:
            value = next((item for item in value or () if item.get(key) == wanted), None)
    return value
