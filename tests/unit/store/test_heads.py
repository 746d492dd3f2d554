"""Heads of streams: raised, never lowered, and stored by a keyed hash where the name must not be stored."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore_core.store import heads
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.heads import HiddenHeads, raise_heads, raised_rows
from messagestore_core.store.keyed import stream_key
from support.stores import kept_heads, make_store

KEY = b"k" * 32
NAMES = [f"order-{n}" for n in range(6)]


@dataclass(frozen=True)
class Purge:
    """The positions of streams, and the streams that had only erased messages left."""

    reached: list[tuple[str, int]]
    erased: list[str]

    @property
    def streams(self) -> pa.Table:
        names, positions = [name for name, _ in self.reached], [position for _, position in self.reached]
        return pa.table({"stream_name": pa.array(names, pa.string()), "next_position": pa.array(positions, pa.int64())})


purges = st.builds(
    Purge,
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(1, 50)), max_size=8),
    st.lists(st.sampled_from(NAMES), unique=True, max_size=2),
)


@given(st.lists(purges, min_size=1, max_size=5), st.integers(1, 4))
def test_of_raised_heads_the_highest_stays_and_erased_streams_have_no_name(history: list[Purge], batch: int) -> None:
    highest, nameless, hidden = dict[str, int](), set[str](), HiddenHeads(next_global=9, key=KEY)
    known = pa.Table.from_batches([], heads.HEADS)
    for purge in history:
        named = known.filter(known["stream_name"].is_valid()).select(["stream_name", "next_position"])
        rows = raised_rows(named.to_batches(batch), purge.streams, hidden, purge.erased)
        known = pa.Table.from_batches(list(rows), heads.HEADS)
        for name, position in purge.reached:
            highest[name] = max(position, highest.get(name, 0))
        nameless = nameless - set(dict(purge.reached)) | set(purge.erased)
        wanted = {(name, highest[name], None, None) for name in set(highest) - nameless}
        wanted |= {(None, highest.get(name, 0), None, stream_key(KEY, name)) for name in nameless}
        found = [tuple(row[name] for name in heads.HEADS.names) for row in known.to_pylist()]
        assert (len(found), set(found)) == (len(wanted) + 1, wanted | {(None, None, 9, None)})


def test_heads_that_are_not_raised_are_copied_and_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_store(tmp_path / "store", [])
    store = HeldStore(f"file://{tmp_path}/store")
    raise_heads(store, Purge([(f"order-{n}", n + 1) for n in range(1000)], []).streams, 1000)
    monkeypatch.setattr(heads, "_BATCH_ROWS", 10)
    sizes, write = list[int](), store.write_rows

    def noting(name: str, rows: pa.RecordBatchReader, **options: object) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                sizes.append(batch.num_rows)
                yield batch

        write(name, pa.RecordBatchReader.from_batches(rows.schema, batches()), **options)

    monkeypatch.setattr(store, "write_rows", noting)
    raise_heads(store, Purge([("order-7", 20), ("order-1000", 1)], []).streams, 7)
    assert (max(sizes), sum(sizes)) == (10, 1002)
    assert kept_heads(store).by_name == {f"order-{n}": n + 1 for n in range(1000)} | {"order-7": 20, "order-1000": 1}
    assert kept_heads(store).next_global == 1000


def test_a_head_that_was_never_reached_is_told_as_such_when_others_are_raised(tmp_path: Path) -> None:
    make_store(tmp_path / "store", [])
    store = HeldStore(f"file://{tmp_path}/store")
    rows = [{"stream_name": "order-1", "next_position": 1 << 61}]
    store.write_rows("heads", pa.Table.from_pylist(rows, schema=heads.HEADS))
    with pytest.raises(TableRefusedError, match="heads has a next_position that cannot have been reached: restore it"):
        raise_heads(store, Purge([("order-2", 5)], []).streams, 9)


def test_a_stream_that_was_hidden_is_not_hidden_any_more_once_it_is_shown() -> None:
    hidden = HiddenHeads(by_key={stream_key(KEY, "order-1"): 7}, key=KEY)
    assert hidden.hides("order-1")
    assert (hidden.show("order-1"), hidden.show("order-1")) == (7, 0)
    assert not hidden.hides("order-1")


def test_a_hidden_head_is_never_lowered() -> None:
    hidden = HiddenHeads(key=KEY)
    hidden.hide("order-1", 7)
    hidden.hide("order-1", 5)
    assert hidden.next_position("order-1") == 7
