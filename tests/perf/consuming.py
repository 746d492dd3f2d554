"""What a consumer does: ``python -m tests.perf.consuming [--messages N]`` prints the figures.

Its rate is measured on a large store whose days are ordered by stream, as after maintenance; the time from a commit to
the handler on a store of one message, by commits at random moments while the consumer waits.
"""

import os
import random
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from tests.perf.large_reads import store_of

from messagestore.consuming import Consumer
from messagestore.message import Message
from support.stores import add_messages, make_store, message

BATCH_SIZES = (1_000, 10_000)
"""The latter is the default."""


def main(
    messages: Annotated[int, typer.Option(help="Messages of the store.")] = 10_000_000,
    days: Annotated[int, typer.Option(help="Over how many days.")] = 10,
    handled: Annotated[int, typer.Option(help="How many are handled.")] = 1_000_000,
    commits: Annotated[int, typer.Option(help="How many commits are waited for.")] = 30,
) -> None:
    """Measure, and print."""
    load = os.getloadavg()[0]
    store = store_of(messages, days)
    rates = {size: _rate(store, handled, size) for size in BATCH_SIZES}
    waits = _waits(commits)
    console = Console(width=120)
    console.print(f"{os.cpu_count()} cores, load {load:.1f} before")
    for size, (seconds, cpu) in rates.items():
        each = f"{handled / seconds:,.0f} a second, {cpu / handled * 1e6:.0f} µs of CPU"
        console.print(f"{handled:,} of {messages:,}, batch_size={size:,}: {each}")
    console.print(f"commit to handler: median {statistics.median(waits):.2f} s, {min(waits):.2f} to {max(waits):.2f}")


def _rate(store: Path, handled: int, batch_size: int) -> tuple[float, float]:
    """Seconds, and seconds of CPU, for so many messages of a category."""
    state = Path(tempfile.mkdtemp(prefix="consumers-"))
    left = handled
    with Consumer(f"file://{store}", "bench", category="account", state=str(state), batch_size=batch_size) as consumer:

        @consumer.on()
        def handle(_: Message) -> None:
            nonlocal left
            left -= 1
            if not left:
                consumer.stop()

        began, cpu = time.perf_counter(), time.process_time()
        consumer.run()
        took = time.perf_counter() - began, time.process_time() - cpu
    shutil.rmtree(state)
    return took


def _waits(commits: int) -> list[float]:
    """Seconds from a commit, which has returned, to its handler."""
    with tempfile.TemporaryDirectory() as folder:
        uri = make_store(Path(folder) / "store", [message(1)]).uri
        committed, got = dict[int, float](), dict[int, float]()

        def commit() -> None:
            for number in range(2, commits + 2):
                time.sleep(random.uniform(1, 2))
                add_messages(uri, [message(number)])
                committed[number] = time.perf_counter()

        thread = threading.Thread(target=commit)
        with Consumer(uri, "bench", start="Now") as consumer:
            thread.start()
            while len(got) < commits:
                received = consumer.receive(timeout=30)
                got[received.global_position] = time.perf_counter()
            thread.join()
    return [max(0.0, got[number] - committed[number]) for number in got]


if __name__ == "__main__":
    typer.run(main)
