"""The columns of ``kubectl get``, which the API server and the command line print in the same way.

Columns are data; cells are printed as kubectl prints them, including ages.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

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


def age(time: str, now: dt.datetime) -> str:
    """How long ago a time was, as kubectl writes it."""
    try:
        seconds = int((now - dt.datetime.fromisoformat(time)).total_seconds())
    except ValueError:
        return "<invalid>"
    return "<invalid>" if seconds < -1 else _duration(max(seconds, 0))


def _duration(seconds: int) -> str:
    """The longer, the coarser: 119s, 9m59s, 179m, 7h59m, 47h, 7d23h, 729d, 7y364d, 8y."""
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps = (
        (minutes < 2, f"{seconds}s"),
        (minutes < 10, _two(minutes, "m", seconds % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _two(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _two(days, "d", hours % 24, "h")),
        (days < 730, f"{days}d"),
        (days < 8 * 365, _two(days // 365, "y", days % 365, "d")),
    )
    return next((text for fits, text in steps if fits), f"{days // 365}y")


def _two(large: int, large_unit: str, small: int, small_unit: str) -> str:
    return f"{large}{large_unit}{small}{small_unit}" if small else f"{large}{large_unit}"
