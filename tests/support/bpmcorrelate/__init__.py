"""Camunda's bpm-correlate: answers of an inbox of its own classes, at times that a test gives.

Its jars are not in all registries, so a record has its answers: of version 2025.05.1, built from its sources. A test
reads the record, and fails for a question without an answer. With MESSAGESTORE_BPM_CORRELATE, a folder with its
jar and its dependencies, the same test uses its classes in a JVM and writes the record again.
"""

import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from messagestore_core.contract.ingest import Retry
from support.ingests import START

JARS = os.environ.get("MESSAGESTORE_BPM_CORRELATE")
RECORD = Path(__file__).with_name("record.txt")
NONE = "-"
_ANSWERS = " =>"

Said = list[str]
"""Commands of Inbox.java since the inbox was opened; the last one is to be answered."""


@dataclass(frozen=True)
class Kept:
    """An inbox's state of a message: number of failures, when it is due again, and a word for both."""

    retries: int
    next_retry_at: datetime | None
    status: str


@dataclass
class Inbox:
    """One inbox at a time."""

    answer: Callable[[Said], str]
    said: Said = field(default_factory=list)

    def open(self, retry: Retry) -> None:
        """Open a new, empty inbox. Its maximum backoff is in whole minutes."""
        self.said.clear()
        minutes = int(retry.max_backoff.total_seconds()) // 60
        self._say("inbox", repr(float(retry.backoff_base)), str(minutes), str(retry.max_retries))

    def message(
        self,
        message_id: str,
        group: str | None = None,
        at: datetime = START,
        ttl: str | None = None,
        expires_at: datetime | None = None,
        retries: int = 0,
        next_retry_at: datetime | None = None,
    ) -> None:
        """Add a message, which may have failed before. Without a group it has its own."""
        came = [message_id, group or f"group-of-{message_id}", _word(at), ttl or NONE, _word(expires_at)]
        self._say("message", *came, str(retries), _word(next_retry_at))

    def correlate(self, at: datetime, failing: Sequence[str] = ()) -> list[str]:
        """One round; returns the tried ids, in order. Those in ``failing`` fail; the others leave the inbox."""
        return self._say("correlate", _word(at), *failing).split()

    def clean(self, at: datetime) -> None:
        """Remove expired messages."""
        self._say("clean", _word(at))

    def kept(self, message_id: str) -> Kept | None:
        """The state of a message; None once it has left."""
        told = self._say("state", message_id).split()
        if not told:
            return None
        retries, next_retry_at, status = told
        return Kept(int(retries), None if next_retry_at == NONE else datetime.fromisoformat(next_retry_at), status)

    def _say(self, *words: str) -> str:
        self.said.append(" ".join(words))
        return self.answer(self.said)


@contextmanager
def bpm_correlate() -> Iterator[Inbox]:
    """An inbox that answers from the record, or from the classes, which write the record again."""
    if JARS is None:
        yield Inbox(_recorded())
    else:
        with _jvm(JARS) as answer:
            record: list[str] = []
            yield Inbox(_recording(answer, record))
            RECORD.write_text("".join(f"{line}\n" for line in record))


def _recorded() -> Callable[[Said], str]:
    answers: dict[tuple[str, ...], str] = {}
    said: Said = []
    for line in RECORD.read_text().splitlines():
        command, _, told = line.partition(_ANSWERS)
        said = [command] if command.startswith("inbox ") else [*said, command]
        answers[tuple(said)] = told.strip()
    return lambda asked: answers[tuple(asked)]


def _recording(answer: Callable[[Said], str], record: list[str]) -> Callable[[Said], str]:
    def asked(said: Said) -> str:
        told = answer(said)
        record.append(f"{said[-1]}{_ANSWERS} {told}".rstrip())
        return told

    return asked


@contextmanager
def _jvm(jars: str) -> Iterator[Callable[[Said], str]]:
    """A JVM that runs Inbox.java from its source; it ends with its input."""
    command = ["java", "-cp", f"{jars}/*", str(Path(__file__).with_name("Inbox.java"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as jvm:
        to_jvm, from_jvm = jvm.stdin, jvm.stdout

        def answer(said: Said) -> str:
            to_jvm.write(f"{said[-1]}\n")
            to_jvm.flush()
            told = from_jvm.readline()
            assert told, f"bpm-correlate ended at {said}"
            return told.rstrip("\n")

        yield answer


def _word(moment: datetime | None) -> str:
    return NONE if moment is None else moment.isoformat()
