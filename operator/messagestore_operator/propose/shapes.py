"""What the files of a sample have: lines or documents, and where in these the records are."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from messagestore_core.contract.records import FileFormat
from messagestore_operator.propose.sample import SampledFile

MOST_RECORDS = 2_000
_MOST_ARRAYS = 4
_BETWEEN = re.compile(r"[\s\x1e]*")
_COMMA = re.compile(r"\s*,?\s*")
_ARRAY_FIRST = re.compile(r'\s*\{\s*("(?:[^"\\]|\\.)*")\s*:\s*\[')
_DECODER = json.JSONDecoder()


@dataclass
class Shape:
    """How files have their records.

    Attributes:
        arrays: the names of the arrays that have them; none: they are documents, elements or lines themselves.
        records: a sample of them: JSON values, or the texts of lines.
        damaged: how many pieces of the sample are none.
        reason: why the format was chosen, for people.
    """

    format: FileFormat
    reason: str
    records: list[Any] = field(default_factory=list)
    damaged: int = 0
    arrays: tuple[str, ...] = ()


def find_shape(files: Sequence[SampledFile]) -> Shape:
    """The shape of the records in a sample."""
    by_line, by_document = _lines(files), _documents(files)
    arrays = _names_of_arrays(by_document.records)
    if arrays:
        inside = [record for document in by_document.records for record in _at(document, arrays)]
        reason = f"documents that have an array {' or '.join(arrays)}"
        return Shape("JSON", reason, inside[:MOST_RECORDS], by_document.damaged, arrays)
    if by_line.records and len(by_line.records) >= by_line.damaged:
        return by_line
    if by_document.records:
        return by_document
    texts = [line.decode(errors="replace") for file in files for line in _whole_lines(file)]
    return Shape("Text", "lines that are no JSON objects", texts[:MOST_RECORDS])


def _whole_lines(file: SampledFile) -> list[bytes]:
    lines = file.head.split(b"\n")
    return [line for line in (lines if file.whole else lines[:-1]) if line.strip()]


def _lines(files: Iterable[SampledFile]) -> Shape:
    shape = Shape("JSONLines", "each line is a JSON object")
    for line in (line for file in files for line in _whole_lines(file)):
        if len(shape.records) == MOST_RECORDS:
            break
        record = _parsed(line)
        if isinstance(record, dict):
            shape.records.append(record)
        else:
            shape.damaged += 1
    return shape


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _documents(files: Iterable[SampledFile]) -> Shape:
    shape = Shape("JSON", "JSON documents that are not one a line")
    for file in files:
        for record, ended in _values(file):
            if len(shape.records) == MOST_RECORDS:
                return shape
            if isinstance(record, dict):
                shape.records.append(record)
            else:
                # What was cut off for the sample is not damaged.
                shape.damaged += ended or file.whole
    return shape


def _values(file: SampledFile) -> Iterator[tuple[Any, bool]]:
    """The documents of a file, of an array its elements; each with whether it ended.

    A document that begins with an array and has no end in the sample is given with the elements that have one.
    """
    text = file.head.decode(errors="replace").removeprefix("\ufeff")
    at = _end_of(_BETWEEN, text, 0)
    while at < len(text):
        if text[at] == "[":
            elements, at = _elements(text, at + 1)
            yield from ((element, True) for element in elements)
        else:
            try:
                value, at = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                first = _ARRAY_FIRST.match(text, at)
                if first is None or file.whole:
                    yield None, False
                else:
                    yield {json.loads(first[1]): _elements(text, first.end())[0]}, True
                return
            yield value, True
        at = _end_of(_BETWEEN, text, at)


def _elements(text: str, at: int) -> tuple[list[Any], int]:
    """The elements of an array that begins before a place, as far as they are whole, and where it ends."""
    elements: list[Any] = []
    at = _end_of(_COMMA, text, at)
    while at < len(text) and text[at] != "]":
        try:
            element, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            return elements, len(text)
        elements.append(element)
        at = _end_of(_COMMA, text, at)
    return elements, at + 1


def _end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _names_of_arrays(documents: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The names of the arrays that have the records of most documents; none where documents are records themselves."""
    around = [document for document in documents if not any(map(_is_id, document))]
    names = Counter(name for document in around for name, value in document.items() if _are_objects(value))
    several = [name for name, _ in names.most_common(_MOST_ARRAYS)]
    having = sum(any(name in document for name in several) for document in around)
    return tuple(several) if having * 2 > len(documents) else ()


def _are_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _is_id(name: str) -> bool:
    return name.lower().endswith(("id", "uuid"))


def _at(document: dict[str, Any], names: Sequence[str]) -> list[Any]:
    """The records of a document, in the first of some arrays that it has."""
    values: Any = next((document[name] for name in names if document.get(name) is not None), [])
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []
