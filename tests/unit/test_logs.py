"""Lines of logs: one a record, with the same fields as text and as JSON."""

import json
import logging
import sys

import pytest

from messagestore_core.logs import LineFormatter, LogFormat, tell


def line(log_format: LogFormat, message: str, fields: dict[str, object], secret: str = "") -> str:
    """The line that a formatter makes of a record."""
    lines: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    log, handler = logging.Logger("messagestore_operator.resources"), Kept()
    handler.setFormatter(LineFormatter(log_format, lambda text: text.replace(secret, "…") if secret else text))
    log.addHandler(handler)
    tell(log, logging.WARNING, message, fields)
    (found,) = lines
    return found


FIELDS = {"kind": "MessageStream", "name": "orders", "from": None, "seconds": {"working": 2.5, "waiting": 0}}


def test_a_line_of_json_has_its_fields_by_name() -> None:
    found = json.loads(line("json", "run ended", FIELDS))
    assert found.pop("time").endswith("Z")
    assert found == {
        "level": "WARNING",
        "logger": "messagestore_operator.resources",
        "message": "run ended",
        "kind": "MessageStream",
        "name": "orders",
        "seconds": {"working": 2.5, "waiting": 0},
    }


def test_a_line_of_text_has_the_same_fields() -> None:
    _, rest = line("text", "run ended", FIELDS).split(" ", 1)
    assert rest == (
        "WARNING messagestore_operator.resources run ended kind=MessageStream name=orders seconds.working=2.5 "
        "seconds.waiting=0"
    )


@pytest.mark.parametrize("log_format", ["json", "text"])
@pytest.mark.parametrize("text", ["a\nWARNING forged", "a\r\x1b[31m", "a\u2028b", "a\u202eb\x9b"])
def test_no_text_begins_another_line_or_moves_a_terminals_cursor(log_format: LogFormat, text: str) -> None:
    found = line(log_format, text, {"name": text})
    assert len(found.splitlines()) == 1
    assert found.isprintable()


def test_a_text_that_looks_like_a_field_is_quoted() -> None:
    assert line("text", "it", {"name": 'a b="c"', "reason": "", "result": "x=y"}).endswith(
        r'name="a b=\"c\"" reason="" result="x=y"'
    )


@pytest.mark.parametrize("log_format", ["json", "text"])
@pytest.mark.parametrize("secret", ["p4ss", 'quo"te\\', "schlüssel"])
def test_no_line_has_a_secret(log_format: LogFormat, secret: str) -> None:
    found = line(log_format, f"refused: {secret}!", {"name": "orders"}, secret)
    assert secret not in found
    assert json.dumps(secret)[1:-1] not in found
    assert "refused: …!" in (json.loads(found)["message"] if log_format == "json" else found)


def test_an_errors_trace_follows() -> None:
    try:
        raise ValueError("wrong")
    except ValueError:
        record = logging.LogRecord("it", logging.ERROR, "", 0, "failed", None, sys.exc_info())
    assert "ValueError: wrong" in json.loads(LineFormatter("json").format(record))["exception"]
    assert LineFormatter("text").format(record).splitlines()[-1] == "ValueError: wrong"
