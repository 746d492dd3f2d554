"""A sealed chunk that was not sent to its end, less what was erased since: what stands in its objects says it all."""

import json
import re
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from messagestore_jobs.replay.copies import NO_RECORD
from messagestore_jobs.replay.delivery import Delivery
from messagestore_jobs.replay.staging import Format
from messagestore_jobs.replay.state import Chunk, Part
from messagestore_jobs.store.errors import TableRefusedError
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.objects import join
from messagestore_jobs.store.tombstones import Erased

_ID = '{"messageId":'
_LETTER = '{"reason":'
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]]', re.DOTALL)


def without_erased_since(chunk: Chunk, sent_before: int, delivery: Delivery, erased: Erased) -> Chunk:
    """The chunk as it is to be sent by now, sealed anew where messages of it were erased.

    An erasure may have been here before, and have left records without an id.

    Args:
        chunk: of messages, or of dead letters.
        sent_before: how many messages the chunks before it sent.
        delivery: knows what of it has been sent.
        erased: by now.

    Raises:
        TableRefusedError: an object holds something else than a replay has written.
    """
    parts: list[Part] = []
    for part in chunk.parts:
        first = sent_before + sum(earlier.messages for earlier in parts)
        pending = delivery.undelivered(part, first)
        parts.append(part if pending is None else _checked(part, *pending, delivery, erased))
    if tuple(parts) == chunk.parts:
        return chunk
    sent = sum(part.messages for part in parts)
    news = {"parts": tuple(parts), "sent": sent, "erased": chunk.erased + chunk.sent - sent}
    chunk = chunk.model_copy(update=news | {"bytes": sum(part.bytes for part in parts)})
    delivery.state.seal(chunk)
    return chunk


def _checked(part: Part, name: str, sent: int, delivery: Delivery, erased: Erased) -> Part:
    """The object without its erased records; the first ``sent`` of them have left, and keep their places."""
    content = delivery.places.read(name) or b""
    if delivery.form == "Parquet":
        return part.model_copy(update={"messages": pq.ParquetFile(pa.BufferReader(content)).metadata.num_rows})
    records = _records(content.decode(), delivery.form)
    try:
        ids = [_id_of(record) for record in records]
    except ValueError:
        raise TableRefusedError(
            f"{join(delivery.places.uri, name)} is not what a replay writes there; find out who wrote it, and make a "
            "new replay"
        ) from None
    gone = erased.contains(pa.array(ids, pa.string()))
    gone |= np.array([record == NO_RECORD for record in records], dtype=np.bool_)
    gone[:sent] = False
    if gone.any():
        records = [record for record, is_gone in zip(records, gone, strict=True) if not is_gone]
        content = _content(records, delivery.form)
        folder, _, base = name.rpartition("/")
        with external_write("replay-erased"):
            # Hadoop's sums of a local file would be those of what was there.
            delivery.places.delete(f"{folder}/.{base}.crc")
            delivery.places.write(name, content)
    return part.model_copy(update={"messages": len(records), "bytes": len(content)})


def _id_of(record: str) -> str | None:
    """Of a message; None of a dead letter, and of what stands where a record was."""
    if record.startswith(_LETTER):
        return None
    found: str | None = json.JSONDecoder().raw_decode(record, len(_ID))[0]
    return found


def _records(text: str, form: Format) -> list[str]:
    return list(_elements(text)) if form == "JSON" else text.removesuffix("\n").split("\n") if text else []


def _elements(text: str) -> Iterator[str]:
    """The objects of a JSON array, each as it stands."""
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
    """As ``staging`` writes them."""
    text = "\n,".join(records)
    return f"[{text}\n]\n".encode() if form == "JSON" else "".join(f"{record}\n" for record in records).encode()
