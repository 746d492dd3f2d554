"""How long a message waits from its commit to a consumer: ``PYTHONPATH=tests python -m tests.perf.sending_on``.

A continuous replay sends from a store of 100,000 messages to a topic of a real broker, or with ``--http`` to an HTTP
endpoint, in a process of its own as in a pod. Commits of some messages come at random times. Then nothing comes, which
shows what the process needs at rest. With ``--sequences`` it sends complete sequences, and each commit is one.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from messagestore_core.contract.destinations import Destination, HttpDestination, KafkaDestination
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask, Selection, Sequences, StartPoint, Subscription
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.progress import Silent
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from messagestore_jobs.session import local_session
from support.httpendpoint import http_endpoint
from support.kafkabroker import running_broker
from support.stores import add_messages, make_store, message

HELD = 100_000
TOPIC = "sent-on"


class _UntilTold:
    """Lets a run go on until its standard input ends."""

    def __init__(self) -> None:
        self.over = threading.Event()

        def wait() -> None:
            sys.stdin.read()
            self.over.set()

        threading.Thread(target=wait, daemon=True).start()

    def suspended(self) -> bool:
        return self.over.is_set()

    def stopped(self, wait: timedelta) -> bool:
        return self.over.wait(wait.total_seconds())

    def messages_per_second(self) -> float | None:
        return None

    def reached(self, outcome: ReplayOutcome) -> None:
        pass


def main(
    commits: Annotated[int, typer.Option(help="How many commits are made.")] = 40,
    messages: Annotated[int, typer.Option(help="Messages of a commit.")] = 100,
    rest: Annotated[int, typer.Option(help="Seconds of rest.")] = 60,
    http: Annotated[bool, typer.Option(help="Send to an endpoint, which answers at once.")] = False,
    sequences: Annotated[bool, typer.Option(help="Send complete sequences.")] = False,
    sending: Annotated[str, typer.Option(help="The run document of the sending process.")] = "",
) -> None:
    """Measure, and print the table."""
    if sending:
        document = RunDocument.model_validate_json(sending)
        run_replay(Run.of(document, local_session(cores=2, memory="512m", little=True), Silent()), _UntilTold())
        return
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-") as folder, _to(http) as (to, await_position):

        def row(n: int) -> dict[str, Any]:
            number, of = (n - 1) % messages + 1, (n - 1) // messages
            more = {"sequence_id": f"s{of}", "sequence_number": number, "sequence_size": messages} if sequences else {}
            return message(n, stream_name=f"a-{n % 100}", **more)

        store = make_store(Path(folder) / "store", map(row, range(1, HELD + 1)))
        subscription = Subscription(start=StartPoint(global_position=HELD + 1), continuous=True)
        select = Selection(sequences=Sequences(complete_only=True) if sequences else None)
        document = RunDocument(
            run="replay-1",
            resource=Resource(kind="ReplayJob", namespace="perf", name="out"),
            table=store,
            task=ReplayTask(job_id="perf.out", subscription=subscription, select=select, destination=to),
        )
        waits, used, cores, mebibytes = _measured(document, await_position, row, commits, messages, rest)
    table = Table("commits", "p50, s", "p95, s", "most, s", "CPU-s a commit", "cores at rest", "MiB at rest")
    cuts = statistics.quantiles(waits, n=20)
    figures = [f"{value:.2f}" for value in (cuts[9], cuts[18], max(waits))]
    table.add_row(str(len(waits)), *figures, f"{used:.2f}", f"{cores:.3f}", str(mebibytes))
    Console(width=100).print(table)


@contextmanager
def _to(http: bool) -> Iterator[tuple[Destination, Callable[[int], None]]]:
    """A destination, and a wait until it has the message at a position."""
    if http:
        with http_endpoint() as endpoint:

            def await_event(position: int) -> None:
                while position not in endpoint.positions[-2000:]:
                    time.sleep(0.01)

            yield HttpDestination(url=endpoint.url), await_event
        return
    with running_broker() as broker:
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result()
        consumer = Consumer(
            {"bootstrap.servers": broker.address, "group.id": "perf"}
            | {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe([TOPIC])

        def await_record(position: int) -> None:
            reached = 0
            while reached != position:
                record = consumer.poll(60)
                if record is not None and not record.error():
                    reached = json.loads(record.value())["globalPosition"]

        yield KafkaDestination(cluster=broker.cluster(), topic=TOPIC), await_record
        consumer.close()


def _measured(
    document: RunDocument,
    await_position: Callable[[int], None],
    row: Callable[[int], dict[str, Any]],
    commits: int,
    messages: int,
    rest: int,
) -> tuple[list[float], float, float, int]:
    """Seconds that the last message of each commit waited; CPU-seconds of a commit; cores and MiB at rest."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.perf.sending_on", "--sending", document.model_dump_json(by_alias=True)],
        stdin=subprocess.PIPE,
        env=os.environ,
    ) as process:
        waits, used = [], 0.0
        last = HELD
        for n in range(commits + 3):
            last += messages
            rows = map(row, range(last - messages + 1, last + 1))
            add_messages(document.table.uri, rows, next_global_position=last + 1)
            committed = time.monotonic()
            await_position(last)
            if n == 2:
                used = _used(process.pid)[0]
            # The first ones include the start of the process, and what is done for the first time.
            waits += [time.monotonic() - committed] if n >= 3 else []
            time.sleep(random.uniform(0.5, 2.5))
        used = (_used(process.pid)[0] - used) / commits
        cores, mebibytes = _at_rest(process.pid, rest)
        process.stdin.close()
    return waits, used, cores, mebibytes


def _at_rest(pid: int, seconds: int) -> tuple[float, int]:
    time.sleep(5)
    before, begun = _used(pid)[0], time.monotonic()
    time.sleep(seconds)
    cpu, mebibytes = _used(pid)
    return (cpu - before) / (time.monotonic() - begun), mebibytes


def _used(pid: int) -> tuple[float, int]:
    """CPU seconds and resident MiB of a process and those that it started."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    cpu, pages = 0.0, 0
    for name, stat in stats.items():
        above = name
        while above not in (pid, 0, 1):
            above = int(stats[above][1]) if above in stats else 0
        if above == pid:
            cpu, pages = cpu + (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"), pages + int(stat[21])
    return cpu, pages * os.sysconf("SC_PAGE_SIZE") >> 20


if __name__ == "__main__":
    typer.run(main)
