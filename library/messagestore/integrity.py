"""Check messages: only payloads that were stored are returned, none from outside the store; and seals, if asked for."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from messagestore.errors import BrokenMessageError
from messagestore.location import Location, refusals
from messagestore_core.seals import COLUMNS, is_sealed
from messagestore_core.store.claim_checks import claim_check_name
from messagestore_core.store.layout import CLAIM_CHECKS
from messagestore_core.store.objects import Objects

OnBroken = Callable[[BrokenMessageError], None]

_TOGETHER_BYTES = 64 << 20
_FETCHES = 8


def sound_rows(location: Location, rows: pa.Table, on_broken: OnBroken | None) -> Iterator[pa.Table]:
    """Yield the rows with payloads of claim checks filled in, in parts of bounded size.

    Args:
        on_broken: called with each broken message, which is then left out.

    Raises:
        BrokenMessageError: a payload is missing, differs from its digest or lies elsewhere; without ``on_broken``.
    """
    for part in _parts(rows):
        filled = _filled(location, part)
        sound = _have_their_payloads(filled)
        if pc.all(sound).as_py():
            yield filled
            continue
        rest = zip(filled.select(_CHECKED).to_pylist(), sound.to_pylist(), strict=True)
        yield _kept(filled, [None if is_sound else _problem(location, row) for row, is_sound in rest], on_broken)


def sealed_rows(rows: pa.Table, keys: Sequence[str], on_broken: OnBroken | None) -> pa.Table:
    """The rows whose seals match one of the keys.

    Args:
        on_broken: called with each message whose seal is missing or does not match, which is then left out.

    Raises:
        BrokenMessageError: there is such a message; without ``on_broken``.
    """
    sealed = rows.select([*COLUMNS, "hmac"]).to_pylist()
    none, other = "it has no seal", "its seal matches no key"
    errors = [None if is_sealed(keys, row) else _broken(row, none if row["hmac"] is None else other) for row in sealed]
    return _kept(rows, errors, on_broken)


def _broken(row: Mapping[str, Any], words: str) -> BrokenMessageError:
    return BrokenMessageError(row["message_id"], row["stream_name"], row["global_position"], words)


def _kept(rows: pa.Table, errors: Sequence[BrokenMessageError | None], on_broken: OnBroken | None) -> pa.Table:
    """The rows that have no error; each error is raised, or told."""
    for error in filter(None, errors):
        if on_broken is None:
            raise error
        on_broken(error)
    return rows.filter(pa.array([error is None for error in errors], pa.bool_())) if any(errors) else rows


def _have_their_payloads(rows: pa.Table) -> pa.Array:
    """Which rows have within themselves what was stored; of the others each is looked at by itself."""
    own = pc.is_null(rows["payload_uri"])
    payloads = zip(rows["payload"].to_pylist(), own.to_pylist(), strict=True)
    digests = [
        hashlib.sha256(payload).hexdigest() if exists and payload is not None else None for payload, exists in payloads
    ]
    same = pc.fill_null(pc.equal(rows["payload_sha256"], pa.array(digests, pa.string())), False)
    return pc.and_(own, pc.or_(pc.is_null(rows["payload_sha256"]), same)).combine_chunks()


_CHECKED = ["message_id", "stream_name", "global_position", "payload", "payload_uri", "payload_size", "payload_sha256"]


def _problem(location: Location, row: Mapping[str, Any]) -> BrokenMessageError | None:
    words = _inside(row) if row["payload_uri"] is None else _under_claim_check(location, row)
    return None if words is None else _broken(row, words)


def _inside(row: Mapping[str, Any]) -> str | None:
    """What is wrong with a payload in the row itself; None if nothing is."""
    payload, digest = row["payload"], row["payload_sha256"]
    if payload is None:
        return "there is no payload any more" if digest is not None else None
    return None if digest is None else _differs(payload, digest)


def _under_claim_check(location: Location, row: Mapping[str, Any]) -> str | None:
    """What is wrong with a payload in an object of its own; None if nothing is. The row must have digest and size."""
    payload, uri, digest = row["payload"], row["payload_uri"], row["payload_sha256"]
    if claim_check_name(location.uri, uri) is None:
        return f"its payload would lie at {uri}, and is no claim check of the store in {location.uri}"
    if digest is None or row["payload_size"] is None:
        return f"its payload lies at {uri}, and the row has no digest and size of it"
    if payload is None:
        return f"there is no {uri} any more, where its payload was"
    if len(payload) > row["payload_size"]:
        return f"its payload is not what was stored: more than {row['payload_size']} bytes"
    if len(payload) < row["payload_size"]:
        return f"its payload is not what was stored: {len(payload)} bytes, not {row['payload_size']}"
    return _differs(payload, digest)


def _differs(payload: bytes, digest: str) -> str | None:
    actual = hashlib.sha256(payload).hexdigest()
    return None if actual == digest else f"its payload is not what was stored: SHA-256 {actual}, not {digest}"


def _parts(rows: pa.Table) -> Iterator[pa.Table]:
    """The rows in order, in parts whose payloads have a bounded size together."""
    begin, together = 0, 0
    for at, stored_size in enumerate(rows["payload_size"].to_pylist()):
        size = max(0, stored_size or 0)
        if together and together + size > _TOGETHER_BYTES:
            yield rows.slice(begin, at - begin)
            begin, together = at, 0
        together += size
    if begin < rows.num_rows:
        yield rows.slice(begin)


def _filled(location: Location, rows: pa.Table) -> pa.Table:
    uris = rows["payload_uri"].to_pylist()
    if not any(uris):
        return rows
    with ThreadPoolExecutor(_FETCHES) as pool:
        objects = location.objects(CLAIM_CHECKS)
        names = [None if uri is None else claim_check_name(location.uri, uri) for uri in uris]
        sizes = rows["payload_size"].to_pylist()
        fetched = pool.map(lambda name, size: None if name is None else _fetch(objects, name, size or 0), names, sizes)
        own = rows["payload"].to_pylist()
        payloads = [mine if mine is not None else theirs for mine, theirs in zip(own, fetched, strict=True)]
    at = rows.column_names.index("payload")
    return rows.set_column(at, rows.schema.field(at), pa.array(payloads, pa.binary()))


def _fetch(objects: Objects, name: str, size: int) -> bytes | None:
    """At most ``size + 1`` bytes of an object: anyone may have put an object there that would fill the memory."""
    with refusals(objects.uri):
        return objects.read_first(name, size + 1)
