"""Which bytes the writer takes as JSON; the tests of the Java extension read the same file."""

import re
from pathlib import Path

import pytest

from messagestore.jsontext import is_strict

TEXTS = Path(__file__).parents[2] / "jobs/extension/json.txt"
BYTE = re.compile(rb"<([0-9a-f]{2})>")


@pytest.mark.parametrize("line", [line for line in TEXTS.read_text().splitlines() if not line.startswith("#")])
def test_each_kind_of_text_is_taken_or_refused(line: str) -> None:
    kind, text = line.encode().split(b"\t", 1)
    assert is_strict(BYTE.sub(lambda found: bytes.fromhex(found[1].decode()), text)) is kind.endswith(b"+")


def test_there_are_texts_of_each_kind() -> None:
    assert {line[:2] for line in TEXTS.read_text().splitlines()} == {"y+", "n-", "i+", "i-", "is", "# "}
