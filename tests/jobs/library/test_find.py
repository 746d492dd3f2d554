"""Looking for messages by their state, and by conditions."""

from datetime import timedelta
from pathlib import Path

import pytest

from messagestore import read_ranges
from messagestore.errors import ArgumentError
from messagestore.message import Message
from messagestore.reader import Reader
from messagestore.snapshot import PAGE
from support.stores import START, Row, make_store, message

HOUR = timedelta(hours=1)


def keys(messages: object) -> list[int]:
    return [m.global_position for m in messages if isinstance(m, Message)]


@pytest.fixture
def store(tmp_path: Path) -> Reader:
    """Two commits: ten messages that came, then ten of which every second has failed."""
    came = [message(n, type="Placed" if n % 2 else "Paid", correlation_id=f"c{n % 3}") for n in range(1, 11)]
    failed: list[Row] = [
        message(n, status="FAILED" if n % 2 else "COMPLETED", error=f"time-out {n}", inserted_at=START + HOUR)
        for n in range(11, 21)
    ]
    return Reader(make_store(tmp_path / "store", came, failed).uri)


def test_messages_are_found_by_all_that_is_given_the_newest_first(store: Reader) -> None:
    assert keys(store.find()) == list(range(20, 0, -1))
    assert keys(store.find(["FAILED"])) == [19, 17, 15, 13, 11]
    assert keys(store.find(types=["Placed", "Paid"], correlation_id="c1")) == [10, 7, 4, 1]
    assert keys(store.find(since=START + HOUR, where="contains(error, '5')")) == [15]
    assert keys(store.find(newest_first=False, batch_size=3)) == [1, 2, 3]
    assert store.arrow.find(["FAILED"], batch_size=2)["global_position"].to_pylist() == [19, 17]


def test_the_next_page_begins_where_the_last_one_ended(store: Reader) -> None:
    assert keys(store.find(["FAILED"], batch_size=2)) == [19, 17]
    assert keys(store.find(["FAILED"], position=16, batch_size=2)) == [15, 13]
    assert keys(store.find(["FAILED"], position=13, newest_first=False, batch_size=2)) == [13, 15]
    assert keys(store.find(position=0)) == []
    assert keys(store.find(position=10**30, batch_size=2)) == [20, 19]
    assert keys(store.find(position=10**30, newest_first=False)) == []


def test_what_is_found_has_no_payload_unless_it_is_asked_for(store: Reader) -> None:
    (bare,), (whole,) = store.find(batch_size=1), store.find(batch_size=1, payloads=True)

    assert (bare.payload, bare.payload_size) == (None, 8)
    assert whole.payload == b'{"n":20}'


@pytest.mark.parametrize("newest_first", [True, False])
@pytest.mark.parametrize("where", [None, "json(payload, '$.n') > 0", "type = 'created'"])
def test_more_than_a_page_is_found_in_order(tmp_path: Path, where: str | None, *, newest_first: bool) -> None:
    count = 2 * PAGE + 1
    rows = [message(n) for n in range(1, count + 1)]
    store = Reader(make_store(tmp_path / "store", rows[:PAGE], rows[PAGE:]).uri)

    found = keys(store.find(where=where, batch_size=-1, newest_first=newest_first))
    bounded = keys(store.find(where=where, batch_size=PAGE + 5, newest_first=newest_first))

    assert found == sorted(range(1, count + 1), reverse=newest_first)
    assert bounded == found[: PAGE + 5]


def test_a_condition_counts_before_the_limit(store: Reader) -> None:
    where = "position % 2 = 0 AND json(payload, '$.n') >= 4"

    assert keys(store.get_stream_messages("order-1", 3, 2, where)) == [4, 6]
    assert keys(store.get_category_messages("order", 5, 2, condition=where)) == [6, 8]
    assert keys(store.get_messages(1, 2, where)) == [4, 6]
    assert keys(store.since("order", 6, 2, where)) == [8, 10]


def test_a_message_on_which_a_condition_cannot_be_computed_is_not_read(tmp_path: Path) -> None:
    rows = [message(1, payload=b"{no JSON"), message(2, payload=b'{"a":"x"}'), message(3, payload=b'{"a":"7"}')]
    store = Reader(make_store(tmp_path / "store", rows).uri)

    assert keys(store.find(where="json(payload, '$.a') > 5")) == [3]
    assert keys(store.find(where="NOT json(payload, '$.a') > 5")) == []


def test_times_beyond_those_of_the_query_engine_are_compared(tmp_path: Path) -> None:
    late = START.replace(year=9999)
    store = Reader(make_store(tmp_path / "store", [message(1), message(2, time=late, expires_at=late)]).uri)

    assert keys(store.find(where="time > '2263-01-01' AND expires_at BETWEEN '2263-01-01' AND '9999-12-31'")) == [2]
    assert keys(store.find(since=late)) == [2]


def test_a_status_that_there_is_not_is_refused(store: Reader) -> None:
    with pytest.raises(ArgumentError, match="LOST is no status"):
        store.find(["LOST"])


def test_effects_are_followed_once_each_also_in_a_circle(tmp_path: Path) -> None:
    causes = {2: "m1", 3: "m1", 4: "m2", 5: "m4", 6: "other", 7: "m7", 1: "m5"}
    rows = [message(n, causation_id=cause) for n, cause in causes.items()]
    store = Reader(make_store(tmp_path / "store", rows).uri)

    assert keys(store.caused_by("m1")) == [2, 3, 4, 5]
    assert keys(store.caused_by("m6")) == []
    assert keys(store.caused_by("m7")) == []


def test_effects_that_have_an_id_in_common_are_all_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ranges, "FEW", 1)
    effects = [(2, "m2", "m1"), (3, "m2", "m1"), (4, "m4", "m2"), (5, "m2", "m4")]
    batches = [[message(at, message_id=name, causation_id=cause)] for at, name, cause in effects]
    store = Reader(make_store(tmp_path / "store", [message(1)], *batches).uri)

    assert keys(store.caused_by("m1")) == [2, 3, 4, 5]
