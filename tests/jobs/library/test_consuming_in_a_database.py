"""Messages and their cursor in one transaction of a real PostgreSQL: each has its effect exactly once."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from messagestore.consuming import Consumer, PostgresCursors
from messagestore.errors import LeaseLostError, StorageError
from support.consumers import Clock, commit, consumer, received, rows
from support.messagedb import running_postgres
from support.stores import make_store

Connect = Callable[[], "psycopg.Connection[Any]"]


@pytest.fixture(scope="module")
def server() -> Iterator[Connect]:
    with running_postgres() as port:
        yield lambda: psycopg.connect(host="127.0.0.1", port=port, user="postgres", dbname="postgres")


@pytest.fixture
def connect(server: Connect) -> Connect:
    with server() as connection:
        connection.execute("DROP TABLE IF EXISTS messagestore_consumers, handled")
        connection.execute(PostgresCursors.TABLE)
        connection.execute("CREATE TABLE handled (position bigint)")
    return server


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return make_store(tmp_path / "store", rows(range(1, 13))).uri


def at(uri: str, connect: Connect, clock: Clock, **given: Any) -> Consumer:
    return consumer(uri, clock, state=PostgresCursors(connect, "billing"), **{"batch_size": 5, **given})


def handle(one: Consumer, connection: "psycopg.Connection[Any]") -> list[int]:
    """Handle a batch in a transaction that is not committed yet."""
    batch = one.batch(timeout=0)
    for message in batch:
        connection.execute("INSERT INTO handled VALUES (%s)", (message.global_position,))
    batch.move(connection)
    return [message.global_position for message in batch]


def handled(connect: Connect) -> list[int]:
    with connect() as connection:
        return [row[0] for row in connection.execute("SELECT position FROM handled ORDER BY 1").fetchall()]


def test_effects_and_cursor_are_committed_together(uri: str, connect: Connect) -> None:
    with at(uri, connect, Clock()) as one, connect() as connection:
        assert handle(one, connection) == [1, 2, 3, 4, 5]
        connection.rollback()
        assert handle(one, connection) == [1, 2, 3, 4, 5]
        connection.commit()
        assert handle(one, connection) == [6, 7, 8, 9, 10]
        connection.rollback()
    with at(uri, connect, Clock()) as another, connect() as connection:
        while handle(another, connection):
            connection.commit()
    assert handled(connect) == [*range(1, 13)]


def test_a_consumer_whose_slots_were_taken_cannot_commit(uri: str, connect: Connect) -> None:
    clock = Clock()
    stalled = at(uri, connect, clock)
    with connect() as slow, connect() as fast:
        batch = stalled.batch(timeout=0)
        clock.pass_by(61)
        with at(uri, connect, clock) as another:
            while handle(another, fast):
                fast.commit()
            with pytest.raises(LeaseLostError, match="roll back"):
                batch.move(slow)
            slow.rollback()
            assert len(stalled.batch(timeout=0)) == 0
    assert handled(connect) == [*range(1, 13)]


def test_random_histories_have_each_effect_once(uri: str, connect: Connect) -> None:
    """Consumers that are killed before and after their commits, roll back, stall and come back."""
    clock, rng, last = Clock(), random.Random(7), 12
    consumers: list[Consumer | None] = [None, None]
    for _ in range(60):
        which, what = rng.randrange(2), rng.choice(["commit", "commit", "commit", "roll back", "die", "more", "stall"])
        one = consumers[which] = consumers[which] or at(uri, connect, clock, slots=3)
        if what == "more":
            commit(uri, range(last + 1, last + 6))
            last += 5
            continue
        clock.pass_by(rng.choice([0, 1, 11]))
        with connect() as connection:
            batch = one.batch(timeout=0)
            if what == "stall":
                clock.pass_by(61)
                consumers[1 - which] = consumers[1 - which] or at(uri, connect, clock, slots=3)
            try:
                for message in batch:
                    connection.execute("INSERT INTO handled VALUES (%s)", (message.global_position,))
                batch.move(connection)
                connection.commit() if what in ("commit", "die", "stall") else connection.rollback()
            except LeaseLostError:
                connection.rollback()
        if what == "die":
            consumers[which] = None
    clock.pass_by(61)
    with at(uri, connect, clock, slots=3) as final, connect() as connection:
        while handle(final, connection):
            connection.commit()
    assert handled(connect) == [*range(1, last + 1)]


def test_the_database_may_keep_the_cursors_of_a_plain_consumer(uri: str, connect: Connect) -> None:
    with at(uri, connect, Clock()) as one:
        assert received(one, 7) == [*range(1, 8)]
    with at(uri, connect, Clock()) as another:
        assert received(another) == [*range(8, 13)]


def test_a_database_that_can_not_be_reached_is_told(uri: str, connect: Connect) -> None:
    def refuse() -> Any:
        raise psycopg.OperationalError("no server")

    with pytest.raises(StorageError, match="no server"):
        at(uri, refuse, Clock())
