"""Lines of a log, with the same fields in the operator and in drivers: as JSON, or as text for people."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from messagestore_core.text import printable

LogFormat = Literal["json", "text"]
_FIELDS = "messagestore_fields"


def tell(log: logging.Logger, level: int, message: str, fields: Mapping[str, Any]) -> None:
    """Write a line with fields, such as the name of a resource; those that are None or empty are left out.

    Fields hold names, reasons, counts and seconds, never a payload.
    """
    log.log(level, message, extra={_FIELDS: {name: value for name, value in fields.items() if value not in (None, {})}})


class LineFormatter(logging.Formatter):
    """One record a line; in text the stack trace of an error follows on lines of its own.

    Args:
        clean: removes secrets from the finished line.
    """

    def __init__(self, log_format: LogFormat, clean: Callable[[str], str] = str) -> None:
        super().__init__()
        self._format, self._clean = log_format, clean

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        fields: Mapping[str, Any] = getattr(record, _FIELDS, {})
        trace = self.formatException(record.exc_info) if record.exc_info else ""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = {"time": time, "level": record.levelname, "logger": record.name}
        # Cleaned before it is escaped, as JSON spells some characters of a secret otherwise.
        message, trace = self._clean(record.getMessage()), self._clean(trace)
        if self._format == "json":
            line = {**head, "message": message, **fields, **({"exception": trace} if trace else {})}
            return self._clean(json.dumps(line, default=str))
        words = [*head.values(), printable(message), *(f"{name}={_word(value)}" for name, value in _flat(fields))]
        return self._clean(" ".join(words)) + (f"\n{trace}" if trace else "")


def _flat(fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", one) for inner, one in _flat(value))
        else:
            yield name, value


def _word(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    plain = text and text.isprintable() and not set(text) & set(' "=')
    return text if plain else json.dumps(text)
