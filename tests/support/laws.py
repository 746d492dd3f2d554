"""Laws that always hold for a store, checked with only the bytes of its source and delta-rs."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from support.site import Site

Row = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """Files that have arrived for a stream, and how to read their lines without the product's code.

    `message` returns the id and payload of a line with a message, None for other lines. `wanted` is the stream's
    filter.
    """

    lines: Sequence[bytes]
    message: Callable[[bytes], tuple[str, bytes | Any] | None]
    wanted: Callable[[bytes], bool] = lambda line: True


@dataclass(frozen=True)
class Store:
    """The rows of a store's tables, by delta-rs, and of its archives, from Parquet."""

    messages: list[Row]
    dead_letters: list[Row]
    archived: list[Row]
    heads: list[Row]
    totals: dict[str, int]
    audit: list[Row]
    writers: list[str] = field(default_factory=list)
    """The runs that wrote messages, in the order of commits, without repetitions in a row."""


def read_store(site: Site, path: str, archive: str | None = None) -> Store:
    """Read a store directly from the S3 server."""
    messages = site.table(f"{path}/messages")
    notes = [note for commit in reversed(messages.history()) if (note := _note(commit)) is not None]
    runs = [note["run"] for note in notes]
    return Store(
        messages=messages.to_pyarrow_table().to_pylist(),
        dead_letters=site.table(f"{path}/dead_letters").to_pyarrow_table().to_pylist(),
        archived=_archived(site, archive) if archive else [],
        heads=site.table(f"{path}/heads").to_pyarrow_table().to_pylist(),
        totals=notes[-1]["totals"] if notes else {},
        audit=site.table(f"{path}/audit").to_pyarrow_table().to_pylist(),
        writers=[run for index, run in enumerate(runs) if index == 0 or runs[index - 1] != run],
    )


def totals(site: Site, path: str) -> dict[str, int]:
    """The totals in a store's newest commit; empty before the first."""
    try:
        history = site.table(f"{path}/messages").history(20)
    except Exception:
        # No table yet, or no server: the caller tries again.
        return {}
    return next((note["totals"] for commit in history if (note := _note(commit)) is not None), {})


def check_laws(store: Store, source: Source) -> None:
    """Laws 1 to 4, for a store that has ingested its whole source. Archived messages count as removed."""
    everything = store.messages + store.archived
    _check_counts(store, source, len(everything))
    _check_positions(store, everything)
    _check_content(store, source, everything)
    _check_purges(store)
    for run, times in Counter(store.writers).items():
        assert times == 1, f"{run} wrote, others did, and then it wrote again: {store.writers}"


def check_replayed(sent: Sequence[Row], selected: Sequence[Row]) -> None:
    """Law 5, for files: the selection is sent, each message once, each stream in order."""
    assert Counter(row["messageId"] for row in sent) == Counter(row["message_id"] for row in selected)
    order: dict[str, list[int]] = defaultdict(list)
    for row in sent:
        order[row["streamName"]].append(row["position"])
    assert all(positions == sorted(positions) for positions in order.values()), order


def _check_counts(store: Store, source: Source, stored: int) -> None:
    """Law 1: the count of received records matches the bytes; each record is counted somewhere."""
    counts = dict(store.totals)
    received = counts.pop("received")
    counts.pop("unknownFields")
    assert received == len(source.lines)
    assert received == sum(counts.values()), store.totals
    assert counts["stored"] == stored
    assert counts["deadLettered"] == len(store.dead_letters)


def _check_positions(store: Store, everything: Sequence[Row]) -> None:
    """Law 2: each position up to the head was assigned, and none twice."""
    by_stream: dict[str, list[int]] = defaultdict(list)
    for row in everything:
        by_stream[row["stream_name"]].append(row["position"])
    for stream, positions in by_stream.items():
        assert sorted(positions) == list(range(len(positions))), stream
    given = [row["global_position"] for row in everything]
    assert len(set(given)) == len(given)
    heads = {row["stream_name"]: row for row in store.heads}
    for row in store.archived:
        # Positions of removed messages are kept elsewhere, or they would be assigned again.
        assert heads[row["stream_name"]]["next_position"] > row["position"]
        assert heads[None]["next_global_position"] > row["global_position"]


def _check_content(store: Store, source: Source, everything: Sequence[Row]) -> None:
    """Law 3: the first copy of each message is in the store, byte for byte; other records are dead letters, once."""
    expected: dict[str, Any] = {}
    broken = 0
    for line in source.lines:
        found = source.message(line)
        if found is None:
            broken += 1
        elif source.wanted(line):
            expected.setdefault(*found)
    stored = {row["message_id"]: row["payload"] for row in everything}
    assert len(stored) == len(everything)
    assert stored.keys() == expected.keys()
    for name, payload in expected.items():
        assert (stored[name] if isinstance(payload, bytes) else json.loads(stored[name])) == payload, name
    assert len(store.dead_letters) == broken
    places = [(row["source"]["uri"], row["source"]["offset"]) for row in store.dead_letters]
    assert len(set(places)) == len(places)


def _check_purges(store: Store) -> None:
    """Law 4: removed messages are archived, and nothing of them is left."""
    removed = sum(dict(row["counts"] or []).get("purged", 0) for row in store.audit if row["action"] == "Purge")
    assert removed == len(store.archived)
    assert not {row["message_id"] for row in store.messages} & {row["message_id"] for row in store.archived}


def _archived(site: Site, folder: str) -> list[Row]:
    """The messages in complete archives; a folder without a manifest is not complete."""
    names = site.objects(folder)
    sealed = {name.rpartition("/")[0] for name in names if name.endswith("/_manifest.json")}
    files = [name for name in names if name.endswith(".parquet") and name.rpartition("/")[0] in sealed]
    return [row for name in files for row in pq.read_table(pa.BufferReader(site.read(name))).to_pylist()]


def _note(commit: Row) -> Row | None:
    try:
        note = json.loads(commit.get("userMetadata") or "")
    except ValueError:
        return None
    return note if isinstance(note, dict) and "totals" in note else None
