"""Answer one question about a store: what ``kubectl messagestore`` starts in a pod with the store's credentials.

The question is a line of standard input, as JSON. The answer goes to standard output: lines of a word and JSON, of
which the last is ``end``, ``missing`` or ``error``. Standard input stays open as long as somebody reads the answer.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from messagestore.conditions import narrowed, quoted
from messagestore.documents import dead_letter_document, message_document
from messagestore.errors import ArgumentError, BrokenMessageError, MessageStoreError
from messagestore.figures import PolicyRules, figures
from messagestore.message import Message
from messagestore.native import native_record
from messagestore.reader import Reader
from messagestore.reads import FIRST_GLOBAL_POSITION
from messagestore.verifying import verify
from messagestore_core.clock import rfc3339
from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.stores import StorageEntry

Line = tuple[str, Any]
"""A word and a value; bytes are JSON already."""
IN_USE = "MESSAGESTORE_IN_USE"
"""Environment variable with a file that is touched as long as somebody reads the answer."""
_BEAT_SECONDS = 15.0


class Wanted(ContractModel):
    """Which messages or dead letters are asked for."""

    name: str | None = None
    """A stream or a category."""
    statuses: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    correlation_id: str | None = None
    error: str | None = None
    """A text in the message's error."""
    since: datetime | None = None
    where: str | None = None
    position: int | None = None
    """The global position to begin with."""
    oldest_first: bool = False
    limit: int = 100
    reasons: tuple[str, ...] = ()
    rule: str | None = None


class Question(ContractModel):
    """A question about a store.

    Attributes:
        seal_keys: the environment variables with the keys of seals.
        policy: the policy whose preview is asked for.
        policies: those of which figures say what they would remove.
        as_of: the time of figures.
        payloads: whether the answer has payloads, and results.
        native: whether messages are Native records; else documents whose payloads are text.
    """

    ask: Literal["messages", "message", "history", "verify", "deadLetters", "preview", "figures"]
    uri: str
    storage: tuple[StorageEntry, ...] = ()
    seal_keys: tuple[str, ...] = ()
    message_id: str = ""
    policy: str = ""
    policies: tuple[PolicyRules, ...] = ()
    as_of: datetime | None = None
    wanted: Wanted = Wanted()
    payloads: bool = False
    native: bool = False


def answer(question: Question) -> Iterator[Line]:
    """The lines of an answer, as they come.

    Raises:
        MessageStoreError: the store can't be read, or the question is refused.
    """
    keys = [os.environ[name] for name in question.seal_keys if name in os.environ]
    if question.ask == "verify":
        checks = verify(question.uri, question.storage, keys, payloads=question.payloads)
        yield from (("check", asdict(check)) for check in checks)
        yield "end", {}
        return
    broken: list[BrokenMessageError] = []
    with Reader(question.uri, storage=question.storage, on_broken=broken.append, seal_keys=keys) as reader:
        ask = {
            "messages": _messages,
            "message": _message,
            "history": _history,
            "deadLetters": _dead_letters,
            "preview": _preview,
            "figures": _figures,
        }
        for line in ask[question.ask](reader, question):
            while broken:
                yield "broken", {"message": str(broken.pop(0))}
            yield line


def _messages(reader: Reader, question: Question) -> Iterator[Line]:
    wanted = question.wanted
    more = [] if wanted.error is None else [f"contains(error, {quoted(wanted.error)})"]
    if wanted.name is not None:
        more.append(f"{'stream_name' if '-' in wanted.name else 'category'} = {quoted(wanted.name)}")
    messages = reader.find(
        wanted.statuses,
        wanted.types,
        wanted.correlation_id,
        None,
        wanted.since,
        narrowed(wanted.where, *more),
        wanted.position,
        wanted.limit,
        newest_first=not wanted.oldest_first,
        payloads=question.payloads,
    )
    count = last = 0
    for message in messages:
        count, last = count + 1, message.global_position
        yield "message", _shown(message, question)
    following = last + (1 if wanted.oldest_first else -1)
    yield "end", {"next": following} if 0 < wanted.limit == count and following > 0 else {}


def _message(reader: Reader, question: Question) -> Iterator[Line]:
    message = reader.get_message(question.message_id)
    if message is None:
        yield _missing(reader, question)
        return
    yield "message", _shown(message, question)
    yield "end", {}


def _history(reader: Reader, question: Question) -> Iterator[Line]:
    rows = reader.history(question.message_id)
    missing = None if rows else _missing(reader, question)
    if missing and missing[1]["outcome"] != "Stored":
        yield missing
        return
    for row in rows:
        yield "change", _document(row)
    yield "end", {}


def _dead_letters(reader: Reader, question: Question) -> Iterator[Line]:
    for one in reader.dead_letters(question.wanted.reasons, redriven=False, batch_size=question.wanted.limit):
        yield "deadLetter", dead_letter_document(one if question.payloads else replace(one, raw=None))
    yield "end", {}


def _preview(reader: Reader, question: Question) -> Iterator[Line]:
    wanted = question.wanted
    count = last = 0
    for one in reader.taken(question.policy, wanted.rule, wanted.position or FIRST_GLOBAL_POSITION, wanted.limit):
        count, last = count + 1, one.global_position
        yield "taken", _document(one)
    yield "end", {"next": last + 1} if count == wanted.limit else {}


def _figures(reader: Reader, question: Question) -> Iterator[Line]:
    answer = figures(reader, question.policies, question.as_of or datetime.now(UTC), payloads=question.payloads)
    yield "figures", answer.model_dump_json().encode()
    yield "end", {}


def _missing(reader: Reader, question: Question) -> Line:
    """What became of a message that is not there."""
    first = reader.outcome(question.message_id)[0]
    return "missing", {"outcome": type(first).__name__, **_document(first)}


def _shown(message: Message, question: Question) -> Any:
    shown = message if question.payloads else replace(message, payload=None, result=None)
    return native_record(shown) if question.native else message_document(shown)


def _document(row: Any) -> dict[str, Any]:
    """The fields of a dataclass, with times as text."""
    fields = asdict(row).items()
    return {to_camel(name): rfc3339(value) if isinstance(value, datetime) else value for name, value in fields}


def _write(word: str, value: Any) -> None:
    content = value if isinstance(value, bytes) else json.dumps(value).encode()
    sys.stdout.buffer.write(word.encode() + b" " + content + b"\n")
    sys.stdout.buffer.flush()


def end_with_the_asker(mark: str | None) -> None:
    """Touch the mark while standard input is open, then end this process: nobody reads the answer any more."""
    while not select.select([0], [], [], _BEAT_SECONDS)[0] or os.read(0, 4096):
        if mark is not None:
            Path(mark).touch()
    os._exit(1)


def main() -> None:
    """Answer the question of standard input."""
    line = sys.stdin.buffer.readline()
    threading.Thread(target=end_with_the_asker, args=(os.environ.get(IN_USE),), daemon=True).start()
    try:
        for word, value in answer(Question.model_validate_json(line)):
            _write(word, value)
    except ValidationError as error:
        _write("error", {"message": f"the image is of a release that doesn't know the question: {error}", "bad": True})
    except MessageStoreError as error:
        _write("error", {"message": str(error), "bad": isinstance(error, ArgumentError)})


if __name__ == "__main__":
    main()
