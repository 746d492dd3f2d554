"""A replay to a topic: chunks are staged as Native records, one per line, and sent in one transaction after the other.

Each transaction also commits how many of the replay's records have been sent, as the offset of the replay's own
consumer group. So the next run after a crash knows what is in the topic, and sends each record once.
"""

import json
from collections.abc import Callable

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from typing_extensions import override

from messagestore_core.contract.run_document import KafkaDestination, ReplayTask
from messagestore_core.contract.run_report import ReplayOutcome, ReplayProgress
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.folder import exists
from messagestore_core.store.objects import join
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Chunk, Format, Frozen, Part
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.chunks import StoreDelivery
from messagestore_jobs.replay.freeze import nothing_selected
from messagestore_jobs.source.kafka_listing import access, kafka_failure, listed_partitions

TRANSACTION_RECORDS = 10_000
"""Records of a transaction, which readers of committed records see at once."""


class KafkaDelivery(StoreDelivery):
    """Sends to a topic. The replay's state is in the folder of the store that it reads, whose readers ignore it."""

    def __init__(self, run: Run, task: ReplayTask, destination: KafkaDestination) -> None:
        super().__init__(run.store, task, run.store.uri)
        self._spark, self._to = run.spark, destination
        self.form: Format = "JSONLines"
        self.line_breaks: LineBreaks = "Space"
        self._sender: JavaObject | None = None

    @override
    def ended(self) -> ReplayOutcome | None:
        """Without a store there is nothing to send."""
        if not exists(self._held):
            progress = ReplayProgress(percent=100)
            return ReplayOutcome(selection=nothing_selected(), progress=progress, complete=True)
        return super().ended()

    def check(self) -> str | None:
        """Check that the topic exists, and return its id.

        Raises:
            RunFailedError: it doesn't, or the cluster can't be reached.
        """
        field = "spec.destination.kafka.topic"
        listed = listed_partitions(self._spark, self._to.cluster, [self._to.topic], None, field)
        return listed[0].partition.topic_id

    def _check_same(self, frozen: Frozen) -> None:
        """Check that the topic is the one that the replay began to send to.

        Raises:
            RunFailedError: it was deleted, and made again or not.
        """
        # An earlier release noted no id.
        if frozen.destination_id in (None, self.check()):
            return
        parts = [part for chunk in self.state.chunks() for part in chunk.parts]
        gone = sum(part.messages for part in parts if not self.objects.exists(part.staged))
        raise RunFailedError(
            "TopicReplaced",
            f"topic {self._to.topic} was deleted and made again after this replay had begun: at least {gone} of "
            f"{frozen.selection.messages} records went to the topic that is gone. To have all in the new one, make a "
            "new replay of another name",
        )

    @override
    def part_name(self, number: int) -> str:
        """The name is not used, as sent objects are deleted."""
        return f"sent/part-{number:08d}"

    @override
    def undelivered(self, part: Part, first: int) -> tuple[str, int] | None:
        """The consumer group's offset shows how much was sent."""
        if not self.objects.exists(part.staged):
            return None
        try:
            return part.staged, max(0, self._open().sent() - first)
        except Py4JJavaError as error:
            raise failure_of(error, self._to) from error

    @override
    def deliver(self, chunk: Chunk, first: int, unchanged: Callable[[], bool]) -> bool:
        """Send only what has not been sent yet."""
        for part in chunk.parts:
            if self.objects.exists(part.staged):
                if not self._send(part.staged, first, part.messages, unchanged):
                    return False
                with self._held.step("replay-staged-removed"):
                    self.objects.delete(part.staged)
            first += part.messages
        return True

    def close(self) -> None:
        """Close the connections to the cluster."""
        if self._sender is not None:
            self._sender.close()
            self._sender = None

    def end(
        self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome, unchanged: Callable[[], bool]
    ) -> ReplayOutcome:
        """End the replay if the topic is still the one that it began to send to."""
        self._check_same(frozen)
        return self._end(outcome)

    def _send(self, name: str, first: int, messages: int, unchanged: Callable[[], bool]) -> bool:
        """Send an object's records that are not in the topic yet; its first is record ``first`` of the replay.

        Tombstones are looked at last, when a transaction only has to be committed; false if they changed.
        """
        try:
            sender = self._open()
            left = messages - max(0, sender.sent() - first)
            if left <= 0:
                return True
            conf = self._spark._jsparkSession.sessionState().newHadoopConf()
            sender.read(conf, join(self.objects.uri, name), first, messages - left)
            while left > 0:
                with self._held.step("replay-transaction"):
                    sent = sender.send(min(left, TRANSACTION_RECORDS))
                    if not unchanged():
                        sender.abort()
                        return False
                    sender.commit()
                if not sent:
                    raise RunFailedError("RunFailed", f"{left} records are missing in the staged object {name}")
                left -= sent
        except Py4JJavaError as error:
            raise failure_of(error, self._to) from error
        return True

    def _open(self) -> JavaObject:
        if self._sender is None:
            frozen = self.state.frozen(self._task, self._held.uri)
            assert frozen is not None
            self._check_same(frozen)
            # The group's name has the run that began the replay, so a new replay of the same name starts at 0.
            own = f"messagestore-{self._task.job_id}"
            self._sender = self._make_sender(own, f"{own}-{frozen.run}", by_position=False)
        return self._sender

    def _make_sender(self, transactions: str, progress: str, *, by_position: bool) -> JavaObject:
        make = self._spark._jvm.dev.messagestore.spark.KafkaSender  # type: ignore[union-attr]
        to = self._to
        return make(json.dumps(access(to.cluster)), to.topic, to.key, transactions, progress, by_position)


def failure_of(error: Py4JJavaError, to: KafkaDestination) -> RunFailedError:
    """The error of a sender, for people."""
    text = str(error)
    if "RecordTooLargeException" in text:
        return RunFailedError(
            "RecordTooLarge",
            f"topic {to.topic} takes no record as large as one of the selection: raise its max.message.bytes, or leave "
            "the message out",
        )
    if "ProducerFencedException" in text or "InvalidProducerEpochException" in text:
        return RunFailedError("Fenced", "another run of this replay has begun to send; this one ends")
    return kafka_failure(error, to.cluster)
