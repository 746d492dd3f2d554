"""No text of a resource takes long to check, whatever it contains: the operator's event loop does the check."""

import time
from contextlib import suppress
from itertools import product

import pytest
from pydantic_core import PydanticCustomError

from messagestore_core.contract import base
from messagestore_core.contract.base import CheckedText
from messagestore_operator.api import scalars
from support.waiting import scaled

SECONDS = 0.1
PIECES = [*"a0-./:,*'[ ", "a.", "a-", "/a", "1,", "*/1,", "1-2,", "['a']", ".a"]
BEGINNINGS = ["", "$", "s3a://a/", "https://a", "file:///", "a:1,", "P1DT", "JAN,", "$['"]
ENDS = ["", "!", "\n", "\x00"]
TEXTS = {
    found
    for module in (base, scalars)
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, CheckedText) and hasattr(found, "max_length")
}


@pytest.mark.parametrize("text", sorted(TEXTS, key=str), ids=lambda one: one.__name__)
def test_a_text_of_any_repetition_is_checked_in_no_time(text: type[CheckedText]) -> None:
    for beginning, piece, end in product(BEGINNINGS, PIECES, ENDS):
        value = f"{beginning}{piece * text.max_length}"[: text.max_length - len(end)] + end
        began = time.process_time()
        with suppress(PydanticCustomError):
            text.parse(value)
        assert time.process_time() - began < scaled(SECONDS), value
