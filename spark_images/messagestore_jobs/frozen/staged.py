"""Remove erased messages from records that replays have staged, or that a stream is about to ingest.

A record without an id replaces each removed record: a run finds out by number how many records a topic has, so other
records must keep their numbers. Such records are never sent: before it sends anything, a replay looks whether the
tombstones have changed, and if so removes these records and those of messages erased since.

In the store that a record was staged from, id and global position tell whether it is erased, elsewhere its id alone.
"""

from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from messagestore_core.json_values import read_record
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import RECORDS, REPLAYS, STAGING, STATE, is_staged
from messagestore_core.store.objects import Objects, join
from messagestore_core.store.tombstones import Erased
from messagestore_jobs.frozen.replays import origin_of

NO_RECORD = '{"messageId":null}'
"""Replaces an erased record."""
_MOST = (1 << 63) - 1


class StrangeError(ValueError):
    """An object has something that no replay writes."""


def take_out_copies(store: HeldStore, erased: Erased) -> int:
    """Remove erased messages from all staged objects of a store; return how many had such.

    Objects that killed runs left half written are deleted.
    """
    objects = store.objects()
    removed = 0
    for name, own in _staged(store):
        content = objects.read(name)
        if content is None:
            continue
        if not is_staged(name):
            if not name.rpartition("/")[2].startswith("."):
                with store.step("erase-staged"):
                    objects.delete(name)
            continue
        left = _without(name, content, erased, own)
        if left != content:
            removed += 1
            with store.step("erase-staged"):
                replace(objects, name, left)
    return removed


def copies_left(store: Store, erased: Erased) -> Iterator[str]:
    """Staged objects with something erased, or that no replay writes; for people.

    Those that are half written by now are of a run that goes on.
    """
    objects = store.objects()
    for name, own in _staged(store):
        content = objects.read(name)
        try:
            if content is not None and _without(name, content, erased, own, strict=is_staged(name)) != content:
                yield f"{name} has a record of an erased message"
        except StrangeError:
            yield f"{name} is not what a replay writes there"


def replace(objects: Objects, name: str, content: bytes) -> None:
    """Write an object again; the caller names the write."""
    folder, _, base = name.rpartition("/")
    # Hadoop's checksums of a local file would be those of the old content.
    objects.delete(f"{folder}/.{base}.crc")
    objects.write(name, content)


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
        return without_rows(content, erased, strict)
    lines = content.split(b"\n")
    gone = [bool(line) and names_erased(line, erased, own, strict) for line in lines]
    if not any(gone):
        return content
    return b"\n".join(NO_RECORD.encode() if goes else line for line, goes in zip(lines, gone, strict=True))


def names_erased(line: bytes, erased: Erased, own: bool, strict: bool) -> bool:
    """Whether a line is a record of an erased message, or a dead letter that names one.

    Raises:
        StrangeError: with ``strict``, if no replay writes such a line.
    """
    try:
        record = read_record(line)
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


def without_rows(content: bytes, erased: Erased, strict: bool) -> bytes:
    """Remove rows of dead letters that name an erased message from a Parquet object.

    Raises:
        StrangeError: with ``strict``, if no replay writes such an object.
    """
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
