"""Remove erased messages from records that replays have staged, or that a stream is about to ingest.

A record without an id replaces each removed record: a run finds out by number how many records a topic has, so other
records must keep their numbers. Such records are never sent: before it sends anything, a replay looks whether the
tombstones have changed, and if so removes these records and those of messages erased since.

In the store that a record was staged from, id and global position tell whether it is erased, elsewhere its id alone.
"""

import hashlib
import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import RECORDS, REPLAYS, STAGING, STATE, is_staged
from messagestore_core.store.objects import join
from messagestore_core.store.tombstones import Erased, open_erased
from messagestore_jobs.replay.chunks import Delivery, Format
from messagestore_jobs.replay.state import Chunk, Part, origin_of

NO_RECORD = '{"messageId":null}'
"""Replaces an erased record."""
_ID = '{"messageId":'
_DEAD_LETTER = '{"reason":'
_POSITION = re.compile(
    r'(?:,"(?:streamName|category|position)":(?:"(?:[^"\\]|\\.)*"|-?\d+))*,"globalPosition":(\d{1,18})\b'
)
_MOST = (1 << 63) - 1
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


class StrangeError(ValueError):
    """An object has something that no replay writes."""


def take_out_copies(store: HeldStore, erased: Erased) -> int:
    """Remove erased messages from all staged objects of a store, and delete objects that killed runs left half written.

    Returns:
        How many objects had erased messages.
    """
    objects = store.objects()
    removed = 0
    for name, own in _staged(store):
        base = name.rpartition("/")[2]
        content = objects.read(name)
        if content is None:
            continue
        if not is_staged(name):
            if not base.startswith("."):
                with store.step("erase-staged"):
                    objects.delete(name)
            continue
        left = _without(name, content, erased, own)
        if left != content:
            removed += 1
            with store.step("erase-staged"):
                # Hadoop's checksums of a local file would be those of the old content.
                objects.delete(f"{name.rpartition('/')[0]}/.{base}.crc")
                objects.write(name, left)
    return removed


def copies_left(store: Store, erased: Erased) -> Iterator[str]:
    """Staged objects with something erased, or that no replay writes; for people."""
    objects = store.objects()
    for name, own in _staged(store):
        content = objects.read(name) if is_staged(name) else None
        try:
            if content is not None and _without(name, content, erased, own, strict=True) != content:
                yield f"{name} has a record of an erased message"
        except StrangeError:
            yield f"{name} is not what a replay writes there"


class Tombstones:
    """The tombstones of a store, as a replay looks at them again and again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._seen: tuple[DeltaTable, str] | None = None

    def digest(self) -> str:
        """A digest of the table's files as they are now; while it stays the same, nothing more was erased.

        The version says less: it rises with each run that may write the store.
        """
        table = self.store.table("tombstones")
        if self._seen is None or table is not self._seen[0]:
            files = "\n".join(sorted(table.file_uris()))
            self._seen = table, hashlib.sha256(files.encode()).hexdigest()
        return self._seen[1]


def without_erased_since(chunk: Chunk, sent_before: int, delivery: Delivery, tombstones: Tombstones) -> Chunk:
    """The chunk without erased messages, as far as it can be changed; the caller seals it again if it has other parts.

    An erasure may have replaced them already by records without an id.

    Args:
        chunk: of messages, or of dead letters.
        sent_before: how many messages the chunks before it sent.
        delivery: knows what of the chunk can be changed.
        tombstones: of the store that is replayed.

    Raises:
        TableRefusedError: an object has something that no replay writes.
    """
    # First, so that what comes while tombstones are read is looked at again.
    held_against, erased = tombstones.digest(), open_erased(tombstones.store)
    parts: list[Part] = []
    for part in chunk.parts:
        first = sent_before + sum(earlier.messages for earlier in parts)
        pending = delivery.undelivered(part, first)
        parts.append(part if pending is None else _checked(part, *pending, delivery, erased))
    sent = sum(part.messages for part in parts)
    news = {"parts": tuple(parts), "sent": sent, "erased": chunk.erased + chunk.sent - sent}
    news |= {"bytes": sum(part.bytes for part in parts), "tombstones": held_against}
    return chunk.model_copy(update=news)


def _staged(store: Store) -> Iterator[tuple[str, bool]]:
    """What replays have staged in a store, and whether it is from this store."""
    objects = store.objects()
    for job in objects.names(REPLAYS):
        below = [join(job.rstrip("/"), folder) for folder in (f"{STATE}/{STAGING}", RECORDS)]
        names = [name for folder in below for name in objects.names(folder, recursive=True) if not name.endswith("/")]
        own = bool(names) and origin_of(objects, job) == store.uri
        yield from ((name, own) for name in names)


def _without(name: str, content: bytes, erased: Erased, own: bool, *, strict: bool = False) -> bytes:
    if name.endswith(".parquet"):
        return _without_rows(content, erased, strict)
    lines = content.split(b"\n")
    gone = [bool(line) and _goes(line, erased, own, strict) for line in lines]
    if not any(gone):
        return content
    return b"\n".join(NO_RECORD.encode() if goes else line for line, goes in zip(lines, gone, strict=True))


def _goes(line: bytes, erased: Erased, own: bool, strict: bool) -> bool:
    """Whether a line is a record of an erased message, or a dead letter that names one."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        if strict:
            raise StrangeError
        return False
    if "messageId" not in record or "reason" in record:
        return _names(erased, record.get("messageId"), _raw(record))
    try:
        message_id, position = pa.array([record["messageId"]], pa.string()), _position_of(record) if own else None
        return bool(erased.contains_messages(message_id, pa.array([position], pa.int64()))[0])
    except (pa.ArrowException, ValueError):
        if strict:
            raise StrangeError from None
        return False


def _position_of(record: dict[str, object]) -> int | None:
    """The global position of a record; None where there is none."""
    position = record.get("globalPosition")
    return position if type(position) is int and 0 <= position <= _MOST else None


def _raw(dead_letter: dict[str, object]) -> bytes:
    """The bytes of a dead letter in the form for people."""
    with suppress(ValueError):
        return str(dead_letter.get("raw") or "").encode() or b64decode(str(dead_letter.get("rawBase64") or ""))
    return b""


def _names(erased: Erased, message_id: object, raw: bytes | None) -> bool:
    """Whether a dead letter names an erased message: by its id, where that is told, else by the words of its bytes."""
    if isinstance(message_id, str):
        return bool(erased.contains(pa.array([message_id]))[0])
    return raw is not None and erased.named_in(raw)


def _without_rows(content: bytes, erased: Erased, strict: bool) -> bytes:
    """Remove rows of dead letters that name an erased message from a Parquet object."""
    try:
        rows = pq.read_table(pa.BufferReader(content))
        values = rows["value"].to_pylist()
    except (pa.ArrowException, KeyError, OSError):
        if strict:
            raise StrangeError from None
        return content
    # An earlier release staged no ids.
    ids = rows["message_id"].to_pylist() if "message_id" in rows.column_names else [None] * len(values)
    gone = pa.array([_names(erased, *dead_letter) for dead_letter in zip(ids, values, strict=True)], pa.bool_())
    if not pc.any(gone).as_py():
        return content
    out = pa.BufferOutputStream()
    pq.write_table(rows.filter(pc.invert(gone)), out)
    return bytes(out.getvalue())


def _checked(part: Part, name: str, sent: int, delivery: Delivery, erased: Erased) -> Part:
    """Remove erased records from an object, but none of the first ``sent`` ones, which have been sent."""
    content = delivery.objects.read(name) or b""
    if delivery.form == "Parquet":
        left = _without_rows(content, erased, strict=False)
        if left != content:
            _replace(delivery, name, left)
        rows = pq.ParquetFile(pa.BufferReader(left)).metadata.num_rows
        return part.model_copy(update={"messages": rows, "bytes": len(left)})
    records = _records(content.decode(), delivery.form)
    try:
        ids, positions = zip(*map(_identity_of, records), strict=True) if records else ((), ())
    except ValueError:
        raise TableRefusedError(
            f"{join(delivery.objects.uri, name)} is not what a replay writes there; find out who wrote it, and make a "
            "new replay"
        ) from None
    gone = erased.contains_messages(pa.array(ids, pa.string()), pa.array(positions, pa.int64()))
    gone |= np.array([record == NO_RECORD or _is_dead_letter_of(record, erased) for record in records], dtype=np.bool_)
    gone[:sent] = False
    if gone.any():
        records = [record for record, is_gone in zip(records, gone, strict=True) if not is_gone]
        content = _content(records, delivery.form)
        _replace(delivery, name, content)
    return part.model_copy(update={"messages": len(records), "bytes": len(content)})


def _replace(delivery: Delivery, name: str, content: bytes) -> None:
    folder, _, base = name.rpartition("/")
    with delivery.state.held.step("replay-erased"):
        # Hadoop's checksums of a local file would be those of the old content.
        delivery.objects.delete(f"{folder}/.{base}.crc")
        delivery.objects.write(name, content)


def _is_dead_letter_of(record: str, erased: Erased) -> bool:
    """Whether a record is a dead letter that names an erased message."""
    return record.startswith(_DEAD_LETTER) and _goes(record.encode(), erased, own=False, strict=False)


def _identity_of(record: str) -> tuple[str | None, int | None]:
    """Id and global position of a message's record; None for a dead letter, and for a record without an id."""
    if record.startswith(_DEAD_LETTER):
        return None, None
    message_id, end = json.JSONDecoder().raw_decode(record, len(_ID))
    position = _POSITION.match(record, end)
    return message_id, int(position[1]) if position else None


def _records(text: str, form: Format) -> list[str]:
    return list(_elements(text)) if form == "JSON" else text.removesuffix("\n").split("\n") if text else []


def _elements(text: str) -> Iterator[str]:
    """The texts of the objects in a JSON array, unchanged."""
    depth = start = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "{[":
            depth += 1
            if depth == 2:
                start = token.start()
        elif token[0] in "}]":
            depth -= 1
            if depth == 1:
                yield text[start : token.end()]


def _content(records: list[str], form: Format) -> bytes:
    """The records in the format of ``chunks``."""
    text = "\n,".join(records)
    return f"[{text}\n]\n".encode() if form == "JSON" else "".join(f"{record}\n" for record in records).encode()
