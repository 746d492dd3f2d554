"""No payload is handed on that is not what was stored."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from messagestore.errors import BrokenMessageError
from messagestore.place import Place, refusals

OnBroken = Callable[[BrokenMessageError], None]

_TOGETHER_BYTES = 64 << 20
_FETCHES = 8


def sound_rows(place: Place, rows: pa.Table, on_broken: OnBroken | None) -> Iterator[pa.Table]:
    """The rows with the payloads that lie under claim checks, some at a time so that memory is bounded.

    Args:
        place: of the store.
        rows: columns of ``messages``.
        on_broken: told of each broken message, which is then left out.

    Raises:
        BrokenMessageError: a payload is missing or has another digest, and there is no ``on_broken``.
    """
    for part in _parts(rows):
        filled = _filled(place, part)
        errors = [_problem(row) for row in filled.select(_JUDGED).to_pylist()]
        for error in filter(None, errors):
            if on_broken is None:
                raise error
            on_broken(error)
        yield filled.filter(pa.array([error is None for error in errors])) if any(errors) else filled


_JUDGED = ["message_id", "stream_name", "global_position", "payload", "payload_uri", "payload_sha256"]


def _problem(row: Mapping[str, Any]) -> BrokenMessageError | None:
    payload, uri, digest = row["payload"], row["payload_uri"], row["payload_sha256"]
    if payload is None:
        gone = "there is no payload any more" if uri is None else f"there is no {uri} any more, where its payload was"
        words = gone if uri is not None or digest is not None else None
    else:
        found = hashlib.sha256(payload).hexdigest()
        differs = digest is not None and found != digest
        words = f"its payload is not what was stored: SHA-256 {found}, not {digest}" if differs else None
    if words is None:
        return None
    return BrokenMessageError(row["message_id"], row["stream_name"], row["global_position"], words)


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in order, cut so that the payloads of each part are bounded in all."""
    begin, together = 0, 0
    for at, size in enumerate(rows["payload_size"].to_pylist()):
        if together and together + (size or 0) > _TOGETHER_BYTES:
            yield rows.slice(begin, at - begin)
            begin, together = at, 0
        together += size or 0
    if begin < rows.num_rows:
        yield rows.slice(begin)


def _filled(place: Place, rows: pa.Table) -> pa.Table:
    uris = rows["payload_uri"].to_pylist()
    if not any(uris):
        return rows
    with ThreadPoolExecutor(_FETCHES) as pool:
        fetched = pool.map(lambda uri: None if uri is None else _fetch(place, uri), uris)
        own = rows["payload"].to_pylist()
        payloads = [mine if mine is not None else theirs for mine, theirs in zip(own, fetched, strict=True)]
    at = rows.column_names.index("payload")
    return rows.set_column(at, rows.schema.field(at), pa.array(payloads, pa.binary()))


def _fetch(place: Place, uri: str) -> bytes | None:
    folder, _, name = uri.rpartition("/")
    with refusals(uri):
        return place.objects(folder).read(name)
