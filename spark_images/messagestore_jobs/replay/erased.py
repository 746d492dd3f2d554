"""Take what was erased or has expired meanwhile out of a replay's own chunks: see ``frozen.staged``."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from messagestore_core.clock import in_utc
from messagestore_core.json_values import read_record
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import join
from messagestore_core.store.tombstones import Erased, open_erased
from messagestore_jobs.frozen.replays import Chunk, Format, Part
from messagestore_jobs.frozen.staged import NO_RECORD, names_erased, replace, without_rows
from messagestore_jobs.index.changes import digest_of
from messagestore_jobs.replay.chunks import Delivery
from messagestore_jobs.replay.cloud_events import BEGINNING, identities

_ID = '{"messageId":'
_DEAD_LETTER = '{"reason":'
_POSITION = re.compile(
    r'(?:,"(?:streamName|category|position)":(?:"(?:[^"\\]|\\.)*"|-?\d+))*,"globalPosition":(\d{1,18})\b'
)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


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
            self._seen = table, digest_of(set(table.file_uris()))
        return self._seen[1]


def without_erased_since(chunk: Chunk, sent_before: int, delivery: Delivery, tombstones: Tombstones) -> Chunk:
    """The chunk without erased messages, as far as it can be changed; the caller seals it again if it has other parts.

    An erasure may have replaced them already by records without an id. The chunks before have sent ``sent_before``.

    Raises:
        TableRefusedError: an object has something that no replay writes.
    """
    # First, so that what comes while tombstones are read is looked at again.
    held_against, erased = tombstones.digest(), open_erased(tombstones.store)
    left = _checked_parts(
        chunk, sent_before, delivery, lambda part, name, sent: _checked(part, name, sent, delivery, erased)
    )
    gone = chunk.sent - left.sent
    return left.model_copy(update={"erased": chunk.erased + gone, "tombstones": held_against})


def without_expired(chunk: Chunk, sent_before: int, delivery: Delivery, now: datetime) -> Chunk:
    """The chunk of messages without those that have expired, as far as it can be changed; see the above."""

    def checked(part: Part, name: str, sent: int) -> Part:
        content = delivery.objects.read(name) or b""
        records = _records(content.decode(), delivery.form)
        gone = np.array([_has_expired(record, now) for record in records], dtype=np.bool_)
        return _without(part, name, sent, records, gone, delivery)

    left = _checked_parts(chunk, sent_before, delivery, checked)
    return left.model_copy(update={"expired": chunk.expired + chunk.sent - left.sent})


def _checked_parts(
    chunk: Chunk, sent_before: int, delivery: Delivery, checked: Callable[[Part, str, int], Part]
) -> Chunk:
    """The chunk with checked objects, as far as they can be changed."""
    parts: list[Part] = []
    for part in chunk.parts:
        first = sent_before + sum(earlier.messages for earlier in parts)
        pending = delivery.undelivered(part, first)
        parts.append(part if pending is None else checked(part, *pending))
    return chunk.model_copy(
        update={
            "parts": tuple(parts),
            "sent": sum(part.messages for part in parts),
            "bytes": sum(part.bytes for part in parts),
        }
    )


def _has_expired(record: str, now: datetime) -> bool:
    """Whether a message's record says that it has expired."""
    name = "expirytime" if record.startswith(BEGINNING) else "expiresAt"
    if f'"{name}"' not in record:
        return False
    expires_at = read_record(record).get(name)
    return expires_at is not None and in_utc(expires_at) <= now


def _checked(part: Part, name: str, sent: int, delivery: Delivery, erased: Erased) -> Part:
    """Remove erased records from an object, but none of the first ``sent`` ones, which have been sent."""
    content = delivery.objects.read(name) or b""
    if delivery.form == "Parquet":
        left = without_rows(content, erased, strict=False)
        if left != content:
            _replace(delivery, name, left)
        rows = pq.ParquetFile(pa.BufferReader(left)).metadata.num_rows
        return part.model_copy(update={"messages": rows, "bytes": len(left)})
    records = _records(content.decode(), delivery.form)
    try:
        identities = [
            (number, message_id, position)
            for number, (ids, position) in enumerate(map(_identities_of, records))
            for message_id in ids
        ]
    except ValueError:
        raise TableRefusedError(
            f"{join(delivery.objects.uri, name)} is not what a replay writes there; find out who wrote it, and make a "
            "new replay"
        ) from None
    gone = np.array([record == NO_RECORD or _is_dead_letter_of(record, erased) for record in records], dtype=np.bool_)
    if identities:
        numbers, ids, positions = zip(*identities, strict=True)
        are_erased = erased.contains_messages(pa.array(ids, pa.string()), pa.array(positions, pa.int64()))
        gone[np.array(numbers)[are_erased]] = True
    return _without(part, name, sent, records, gone, delivery)


def _without(
    part: Part, name: str, sent: int, records: list[str], gone: npt.NDArray[np.bool_], delivery: Delivery
) -> Part:
    """Remove some records from an object, but none of the first ``sent`` ones, which have been sent."""
    gone[:sent] = False
    left = [record for record, is_gone in zip(records, gone, strict=True) if not is_gone]
    content = _content(left, delivery.form)
    if gone.any():
        _replace(delivery, name, content)
    return part.model_copy(update={"messages": len(left), "bytes": len(content)})


def _replace(delivery: Delivery, name: str, content: bytes) -> None:
    with delivery.state.held.step("replay-erased"):
        replace(delivery.objects, name, content)


def _is_dead_letter_of(record: str, erased: Erased) -> bool:
    """Whether a record is a dead letter that names an erased message."""
    return record.startswith(_DEAD_LETTER) and names_erased(record.encode(), erased, own=False, strict=False)


def _identities_of(record: str) -> tuple[tuple[str | None, ...], int | None]:
    """The id of a message's record, of an event all that it may be, and its global position; none of a dead letter."""
    if record.startswith(_DEAD_LETTER):
        return (), None
    if record.startswith(BEGINNING):
        return identities(read_record(record))
    message_id, end = json.JSONDecoder().raw_decode(record, len(_ID))
    position = _POSITION.match(record, end)
    return (message_id,), int(position[1]) if position else None


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
