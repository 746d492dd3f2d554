"""Reads of a random store with random arguments, compared with lists."""

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from messagestore import ordering, read_ranges, snapshot
from messagestore.names import cardinal_id, hash_64
from messagestore.reader import Reader
from support.stores import Row, make_store, message

CATEGORIES = ["a", "b", "a:command"]
Found = list[int]


def random_rows(count: int) -> list[Row]:
    """Messages with gaps in both kinds of positions, as after purges."""
    chance = random.Random(7)
    heads: dict[str, int] = {}
    rows, last = [], 0
    for number in range(count):
        stream = f"{chance.choice(CATEGORIES)}-{chance.randrange(6)}{chance.choice(['', '+x', '+y'])}"
        heads[stream] = heads.get(stream, -1) + chance.choice([1, 1, 1, 3])
        last += chance.choice([1, 1, 5])
        metadata = {"correlationStreamName": f"{chance.choice(CATEGORIES)}-1"} if chance.random() < 0.4 else None
        rows.append(
            message(
                number,
                stream_name=stream,
                position=heads[stream],
                global_position=last,
                type=chance.choice(["x", "y"]),
                metadata=json.dumps(metadata) if metadata else None,
            )
        )
    return rows


ROWS = random_rows(400)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """The rows in several commits, unordered; pages and candidate sets are small."""
    shuffled = random.Random(8).sample(ROWS, len(ROWS))
    uri = make_store(tmp_path_factory.mktemp("model"), shuffled[:150], shuffled[150:160], shuffled[160:]).uri
    with pytest.MonkeyPatch.context() as small:
        small.setattr(snapshot, "PAGE", 7)
        small.setattr(snapshot, "_CANDIDATES", 11)
        small.setattr(read_ranges, "FEW", 100)
        small.setattr(ordering, "HELD_BYTES", 3000)
        yield Reader(uri)


batch_sizes = st.sampled_from([None, -1, 0, 1, 6, 7, 8, 13, 14, 15, 50])
positions = st.integers(-3, 40) | st.none()
global_positions = st.integers(-3, 1000) | st.none()


def expected(key: str, start: int, batch_size: int | None, keeps: Callable[[Row], bool]) -> Found:
    """The result of a read, computed from a list of all rows."""
    kept = sorted((row for row in ROWS if row[key] >= start and keeps(row)), key=lambda row: int(row[key]))
    limit = 1000 if batch_size is None else batch_size
    return [row["global_position"] for row in (kept if limit == -1 else kept[:limit])]


@given(stream=st.sampled_from(sorted({row["stream_name"] for row in ROWS})), position=positions, batch_size=batch_sizes)
@settings(max_examples=40, deadline=None)
def test_a_stream_is_read_as_a_list_of_all_rows_says(
    store: Reader, stream: str, position: int | None, batch_size: int | None
) -> None:
    found = [m.global_position for m in store.get_stream_messages(stream, position, batch_size)]

    assert found == expected("position", position or 0, batch_size, lambda row: bool(row["stream_name"] == stream))


@given(
    category=st.sampled_from([*CATEGORIES, "c"]),
    position=global_positions,
    batch_size=batch_sizes,
    correlation=st.sampled_from([None, None, *CATEGORIES]),
    group=st.none() | st.tuples(st.integers(1, 4), st.integers(0, 3)).map(lambda g: (g[1] % g[0], g[0])),
)
@settings(max_examples=80, deadline=None)
def test_a_category_is_read_as_a_list_of_all_rows_says(
    store: Reader,
    category: str,
    position: int | None,
    batch_size: int | None,
    correlation: str | None,
    group: tuple[int, int] | None,
) -> None:
    def keeps(row: Row) -> bool:
        named = json.loads(row["metadata"])["correlationStreamName"] if row["metadata"] else ""
        correlated = correlation is None or named.split("-")[0] == correlation
        hashed = abs(hash_64(cardinal_id(row["stream_name"])) or 0)
        return row["category"] == category and correlated and (group is None or hashed % group[1] == group[0])

    arguments: tuple[Any, ...] = (category, position, batch_size, correlation, *(group or (None, None)))
    found = [m.global_position for m in store.get_category_messages(*arguments)]

    start = 1 if position is None else position
    assert found == expected("global_position", start, batch_size, keeps)
    assert store.arrow.get_category_messages(*arguments)["global_position"].to_pylist() == found
