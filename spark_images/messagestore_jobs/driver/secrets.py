"""Keep secrets of a run's environment, and values of records, out of logs and reports."""

import base64
import os
import re
from collections.abc import Collection, Iterator
from functools import cache

from messagestore_core.contract.destinations import HttpDestination, KafkaDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.records import Integrity, KafkaCluster, KafkaSource
from messagestore_core.contract.replay import ReplayTask
from messagestore_core.contract.run_document import RunDocument

_IN_ITS_PLACE = "…"
_LEAST_BASE64 = 8
"""Shorter pieces of base64 are parts of many other texts."""
_NAMED_IN_XML = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos"}
_VALUES = (
    # Spark's errors about data (SQLSTATE 22), which may have a record in them, over several lines.
    (re.compile(r"(\[[A-Z][A-Z0-9_.]*\]) (?:(?!SQLSTATE: ).)*(SQLSTATE: 22[0-9A-Z]{3})", re.DOTALL), r"\1 … \2"),
    (
        re.compile(
            r"((?:java\.lang\.NumberFormat|java\.time\.(?:\w+\.)*DateTime(?:Parse)?|java\.net\.URISyntax"
            r"|com\.fasterxml\.jackson\.(?:\w+\.)*\w+)Exception: )[^\n]*(?:\n at \[Source: [^\n]*)*"
        ),
        r"\1…",
    ),
)
"""What Java says about a value that it can't read: each has the value itself in it."""


def secrets_of(document: RunDocument) -> frozenset[str]:
    """The values of the environment variables that the document names.

    One that was made of a file often ends with the file's line, and is used without it.
    """
    return frozenset(value for name in _variables(document) if (value := os.environ.get(name, "").strip()))


def scrubbed(text: str, secrets: Collection[str]) -> str:
    """Remove all secrets from a text, longest first, as one may contain another; also values of records."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = _forms(secret).sub(_IN_ITS_PLACE, text)
    for pattern, instead in _VALUES:
        text = pattern.sub(instead, text)
    return text


@cache
def _forms(secret: str) -> re.Pattern[str]:
    """A secret as it is or with characters escaped for URLs, JSON or XML, and in base64 at any place of other bytes."""
    plain = (secret, *_in_base64(secret.encode()))
    return re.compile("|".join("".join(map(_spellings, text)) for text in plain))


def _spellings(character: str) -> str:
    """A pattern for a character and its escapes."""
    percent = "".join(f"%{byte:02x}" for byte in character.encode())
    name = f"|&{_NAMED_IN_XML[character]};" if character in _NAMED_IN_XML else ""
    blank = r"|\+" if character == " " else ""
    backslash = r"|\\" + re.escape(character) if character in "\"\\/'" else ""
    unicode = rf"|\\u(?i:{ord(character):04x})|&#(?:{ord(character)}|x(?i:{ord(character):x}));"
    return rf"(?:{re.escape(character)}|(?i:{percent}){unicode}{name}{blank}{backslash})"


def _in_base64(secret: bytes) -> Iterator[str]:
    """What of its base64 depends on the secret alone, in both alphabets, by what precedes it: 0, 1 or 2 bytes."""
    for before in range(3):
        length = (before + len(secret)) * 8 // 6
        first = -(-before * 8 // 6)
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            own = encode(bytes(before) + secret).decode()[first:length]
            if len(own) >= _LEAST_BASE64:
                yield own


def _variables(document: RunDocument) -> Iterator[str]:
    for entry in document.storage:
        names = entry.environment
        if names is not None:
            yield from (names.access_key, names.secret_key)
            if names.session_token is not None:
                yield names.session_token
    yield from _of_seals(document.task)
    for cluster in _clusters(document):
        if cluster.environment is not None:
            # The user's name is in the Secret too, but a name such as "orders" is part of many other texts.
            yield cluster.environment.password
    if isinstance(document.task, PurgeTask) and document.task.scrub and document.task.scrub.key_environment:
        yield document.task.scrub.key_environment
    for to in document.task.destinations if isinstance(document.task, ReplayTask) else ():
        if isinstance(to, HttpDestination) and to.header is not None:
            yield to.header.environment


def _of_seals(task: object) -> Iterator[str]:
    """The variables with keys of seals, of the store and of a replay's destination."""
    seals: list[Integrity | None] = []
    if isinstance(task, IngestTask | PurgeTask | ReplayTask):
        seals.append(task.integrity)
    if isinstance(task, ReplayTask) and task.target is not None:
        seals.append(task.target.ingest.integrity)
    for integrity in filter(None, seals):
        yield from (integrity.key_environment, *integrity.previous_environments)


def _clusters(document: RunDocument) -> Iterator[KafkaCluster]:
    task = document.task
    if isinstance(task, IngestTask):
        sources = [task.source, *([task.lifecycle.source] if task.lifecycle else [])]
        yield from (source.cluster for source in sources if isinstance(source, KafkaSource))
    elif isinstance(task, ReplayTask):
        yield from (to.cluster for to in task.destinations if isinstance(to, KafkaDestination))
