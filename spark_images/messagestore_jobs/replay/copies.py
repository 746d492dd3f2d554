"""Copies of erased messages in what replays have staged, or in what a stream is about to take in of them.

A record that goes leaves one without an id in its place: a topic tells by number how many records it has, so that the
others have to keep theirs. Who goes on passes over it: see ``sealed``.
"""

import json
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from messagestore_jobs.replay.state import REPLAYS
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.objects import Objects
from messagestore_jobs.store.tombstones import Erased

NO_RECORD = '{"messageId":null}'
"""Stands where an erased record was."""


class StrangeError(ValueError):
    """Something lies there that no replay writes."""


def take_out_copies(uri: str, erased: Erased) -> int:
    """Take the erased out of all that is staged in a store, and remove what a killed run left half written.

    Returns:
        How many objects had such.
    """
    objects = Objects(uri)
    found = 0
    for name in _staged(objects):
        base = name.rpartition("/")[2]
        content = objects.read(name)
        if content is None:
            continue
        if not _is_object(name):
            if not base.startswith("."):
                with external_write("erase-staged"):
                    objects.delete(name)
            continue
        left = _without(name, content, erased)
        if left != content:
            found += 1
            with external_write("erase-staged"):
                # Hadoop's sums of a local file would be those of what was there.
                objects.delete(f"{name.rpartition('/')[0]}/.{base}.crc")
                objects.write(name, left)
    return found


def copies_left(uri: str, erased: Erased) -> Iterator[str]:
    """What is staged and holds something erased, or what no replay writes; in words."""
    objects = Objects(uri)
    for name in _staged(objects):
        content = objects.read(name) if _is_object(name) else None
        try:
            if content is not None and _without(name, content, erased, strict=True) != content:
                yield f"{name} has a record of an erased message"
        except StrangeError:
            yield f"{name} is not what a replay writes there"


def _staged(objects: Objects) -> Iterator[str]:
    for job in objects.names(REPLAYS):
        for folder in ("state/staging", "records"):
            yield from (n for n in objects.names(f"{job.rstrip('/')}/{folder}", recursive=True) if not n.endswith("/"))


def _is_object(name: str) -> bool:
    """Whether a name is one that a finished task gives, right below its folder."""
    parts = name.split("/")
    place = 4 if parts[2:4] == ["state", "staging"] else 3
    return len(parts) == place + 1 and parts[-1].startswith("part-") and not parts[-1].endswith(".partial")


def _without(name: str, content: bytes, erased: Erased, *, strict: bool = False) -> bytes:
    if name.endswith(".parquet"):
        return _without_rows(content, erased.named_in, strict)
    lines = content.split(b"\n")
    gone = [bool(line) and _goes(line, erased, strict) for line in lines]
    if not any(gone):
        return content
    return b"\n".join(NO_RECORD.encode() if goes else line for line, goes in zip(lines, gone, strict=True))


def _goes(line: bytes, erased: Erased, strict: bool) -> bool:
    """Whether a line is a record of an erased message, or a dead letter that names one."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        if strict:
            raise StrangeError
        return False
    if "messageId" not in record:
        return erased.named_in(str(record.get("raw") or "").encode() or _decoded(record.get("rawBase64")))
    try:
        return bool(erased.contains(pa.array([record["messageId"]], pa.string()))[0])
    except (pa.ArrowException, ValueError):
        if strict:
            raise StrangeError from None
        return False


def _decoded(base64: object) -> bytes:
    with suppress(ValueError):
        return b64decode(str(base64 or ""))
    return b""


def _without_rows(content: bytes, named_in: Callable[[bytes], bool], strict: bool) -> bytes:
    """Dead letters as they came, on their way to a stream."""
    try:
        rows = pq.read_table(pa.BufferReader(content))
        values = rows["value"].to_pylist()
    except (pa.ArrowException, KeyError, OSError):
        if strict:
            raise StrangeError from None
        return content
    gone = pa.array([value is not None and named_in(value) for value in values], pa.bool_())
    if not pc.any(gone).as_py():
        return content
    out = pa.BufferOutputStream()
    pq.write_table(rows.filter(pc.invert(gone)), out)
    return bytes(out.getvalue())
