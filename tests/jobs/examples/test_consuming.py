"""The examples of consumers do what docs/consuming.md says."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from support.local_runs import EXAMPLES
from support.messagedb import running_postgres
from support.stores import add_messages, make_store, message


def test_competing_consumers(tmp_path: Path) -> None:
    rows = [message(number, stream_name=f"order-{number % 9}", type="Placed") for number in range(1, 31)]
    uri = make_store(tmp_path / "store", rows).uri
    program = [sys.executable, EXAMPLES / "competing-consumers/consumer.py", uri]
    first = subprocess.run([*program, "0"], check=True, capture_output=True, text=True)
    assert first.stdout.splitlines() == [f"{number} order-{number % 9} Placed" for number in range(1, 31)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as second:
        add_messages(uri, [message(31, type="Paid")])
        assert second.stdout.readline() == "31 order-1 Paid\n"
        second.send_signal(signal.SIGTERM)
        assert second.wait(timeout=60) == 0
    # It gave its slots back.
    add_messages(uri, [message(32, type="Paid")])
    third = subprocess.run([*program, "0"], check=True, capture_output=True, text=True)
    assert third.stdout == "32 order-1 Paid\n"


@pytest.fixture
def database() -> Iterator[str]:
    with running_postgres() as port:
        yield f"host=127.0.0.1 port={port} user=postgres dbname=postgres"


def test_inbox(tmp_path: Path, database: str) -> None:
    rows = [message(n, stream_name=f"payment-{n % 2}", payload=b'{"cents": %d}' % n) for n in range(1, 8)]
    uri = make_store(tmp_path / "store", rows).uri
    program = [sys.executable, EXAMPLES / "inbox/inbox.py", uri, database]

    def booked() -> list[tuple[str, int]]:
        with psycopg.connect(database) as connection:
            return connection.execute("SELECT name, cents FROM account ORDER BY name").fetchall()

    done = subprocess.run(program, check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{n} payment-{n % 2}" for n in range(1, 8)]
    assert booked() == [("payment-0", 2 + 4 + 6), ("payment-1", 1 + 3 + 5 + 7)]
    add_messages(uri, [message(8, stream_name="payment-0", payload=b'{"cents": 100}')])
    for _ in range(2):
        subprocess.run(program, check=True, capture_output=True)
    assert booked() == [("payment-0", 112), ("payment-1", 16)]
