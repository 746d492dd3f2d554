"""Native records for tests in the cluster, and how to read them without the product's code."""

import json
from collections.abc import Iterable

_PAYLOAD = b'"payload":'


def records(numbers: Iterable[int]) -> bytes:
    """Lines with a message each, whose payloads are written so that only an exact copy keeps them."""
    return b"".join(_line(number) for number in numbers)


def message(line: bytes) -> tuple[str, bytes] | None:
    """The id and the payload's bytes in one of these lines; None for a truncated line."""
    if not line.endswith(b"}}"):
        return None
    return json.loads(line)["messageId"], line[line.index(_PAYLOAD) + len(_PAYLOAD) : -1]


def _line(number: int) -> bytes:
    envelope = f'"messageId":"m-{number}","streamName":"order-{number % 5}","type":"Placed"'
    time = f'"time":"2026-01-05T00:00:{number % 60:02d}Z"'
    return f'{{{envelope},{time},"payload":{{"n":{number},"sum":1.10}}}}\n'.encode()
