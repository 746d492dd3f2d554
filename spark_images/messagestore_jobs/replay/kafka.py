"""A replay to a topic: chunks are staged as one record per line, and sent in one transaction after the other.

Each transaction also commits how many of the replay's records have been sent, as the offset of the replay's own
consumer group. So the next run after a crash knows what is in the topic, and sends each record once.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from typing_extensions import override

from messagestore_core.contract.destinations import KafkaDestination
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.store.cursors import Cursor
from messagestore_core.store.errors import RunFailedError, TableRefusedError
from messagestore_core.store.layout import TOPICS
from messagestore_core.store.objects import join
from messagestore_core.store.offsets import generations_of
from messagestore_core.store.topics import RestoredNote, note_restored, noted_groups, read_restored
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Chunk, Frozen, Part
from messagestore_jobs.replay.named_topics import NamedTopics
from messagestore_jobs.replay.outward import OutwardDelivery
from messagestore_jobs.replay.source import Source
from messagestore_jobs.replay.topics import (
    Origin,
    check_partitions,
    moved_groups,
    origin_of,
    refuse_unnoted,
    restored_ends,
    wanted_places,
)
from messagestore_jobs.session import extension
from messagestore_jobs.source.kafka_listing import access, kafka_failure, listed_partitions
from messagestore_jobs.source.kafka_topics import create
from messagestore_jobs.source.plan import Listed

TRANSACTION_RECORDS = 10_000
"""Records of a transaction, which readers of committed records see at once."""
_TOO_LARGE_TO_SEND = "the buffer.memory configuration"
"""What the client says of a record that no setting of a topic would let it send."""
_REFUSED = ("InvalidTimestampException", "InvalidRecordException", "part of a batch which had")
"""What brokers say of a record that they refuse, and of others of its batch."""


class KafkaDelivery(OutwardDelivery):
    """Sends to a topic."""

    def __init__(self, run: Run, task: ReplayTask, destination: KafkaDestination, cursor: Cursor | None = None) -> None:
        """Prepare to send; ``cursor`` is that of a subscription's round."""
        super().__init__(run, task)
        self._spark, self._to = run.spark, destination
        self._progress = run.progress
        self._named = NamedTopics(run.store, task.subscription, cursor) if destination.topic_from else None
        self._before = 0
        """How many records were sent before those of this replay, as its group counts them."""
        self._sender: JavaObject | None = None
        self._places: str | None = None
        """Where the records are, once the sender is closed."""

    def check(self) -> str | None:
        """Check that the topic exists, and return its id; None: it is still to be made, or messages name theirs.

        Raises:
            RunFailedError: it is missing, or the cluster can't be reached.
        """
        if self._to.topic_from is not None:
            return None
        try:
            return self._listed()[0].partition.topic_id
        except RunFailedError as error:
            if error.reason == "TopicMissing" and self._to.create:
                return None
            raise

    @override
    def fit(self, source: Source, frozen: Frozen) -> Frozen:
        """Of records as they came: check that the topic takes them, and make it if it is to be made.

        Raises:
            RunFailedError: they are of several topics, it has fewer partitions, or it can't be made.
        """
        if not source.sends_records:
            return frozen
        origin = origin_of(source)
        if frozen.destination_id is None:
            create(source.spark, self._to.cluster, self._to.topic, refuse_unnoted(source, self._to, origin))
        listed = self._listed()
        check_partitions(self._to, origin, len(listed))
        topic_id = listed[0].partition.topic_id
        restores = self._task.subscription is None and all(one.latest == 0 for one in listed)
        if restores:
            note_restored(self._held, self._new_note(source, topic_id, origin))
        return frozen.model_copy(update={"destination_id": topic_id, "restores": restores})

    def _new_note(self, source: Source, topic_id: str, origin: Origin | None) -> RestoredNote:
        store, job = source.store, self._task.job_id
        generations = generations_of(store, origin.topic) if origin else {}
        groups = noted_groups(store, origin.topic, generations, empty=topic_id) if origin else {}
        return RestoredNote(topic=self._to.topic, topic_id=topic_id, job=job, noted_at=source.now, groups=groups)

    def _restored(self, frozen: Frozen) -> RestoredNote:
        """What is noted of the topic.

        Raises:
            TableRefusedError: somebody has removed the note.
        """
        assert frozen.destination_id is not None
        note = read_restored(self._held, frozen.destination_id)
        if note is None:
            raise TableRefusedError(
                f"{self._held.path(TOPICS, frozen.destination_id)} lacks the note of a topic that is put back: delete "
                "the topic, and make a new replay"
            )
        return note

    def _listed(self) -> list[Listed]:
        return listed_partitions(self._spark, self._to.cluster, [self._to.topic], None, "spec.destination.kafka.topic")

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
    def undelivered(self, part: Part, first: int) -> tuple[str, int] | None:
        """The consumer group's offset shows how much was sent."""
        if not self.objects.exists(part.staged):
            return None
        with self._telling():
            return part.staged, max(0, self._open().sent() - self._before - first)

    def close(self) -> None:
        """Close the connections to the cluster."""
        if self._sender is not None:
            self._places = self._sender.places()
            self._sender.close()
            self._sender = None

    @override
    def end(
        self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome, unchanged: Callable[[], bool]
    ) -> ReplayOutcome:
        """End the replay if the topic is still the one that it began to send to."""
        self._check_same(frozen)
        if frozen.restores:
            self._note_ends(frozen)
        return super().end(frozen, chunks, outcome, unchanged)

    def _note_ends(self, frozen: Frozen) -> None:
        """Note up to where the topic has the records that were sent, so that the store's stream goes on behind them."""
        if self._places is None:
            self._open()
            self.close()
        assert self._places is not None
        note, places = self._restored(frozen), json.loads(self._places)
        ends = restored_ends(self._spark, self._to, note.topic_id, places, self._progress)
        note_restored(self._held, note.model_copy(update={"ends": ends, "moved": moved_groups(note, places)}))

    @override
    def _send(self, name: str, first: int, messages: int, unchanged: Callable[[], bool]) -> bool:
        """Tombstones are looked at last, when a transaction only has to be committed."""
        with self._telling():
            sender, first = self._open(), self._before + first
            left = messages - max(0, sender.sent() - first)
            if left <= 0:
                return True
            conf = self._spark._jsparkSession.sessionState().newHadoopConf()
            sender.read(conf, join(self.objects.uri, name), first, messages - left)
            while left > 0:
                before = sender.sent()
                if not self._transaction(sender, min(left, TRANSACTION_RECORDS), unchanged):
                    return False
                if sender.sent() == before:
                    raise RunFailedError("RunFailed", f"{left} records are missing in the staged object {name}")
                left -= sender.sent() - before
        return True

    def _transaction(self, sender: JavaObject, most: int, unchanged: Callable[[], bool]) -> bool:
        """Send the next records; false, and none of them, if tombstones changed meanwhile.

        Raises:
            RunFailedError: all before a message are sent that names a topic which takes none.
        """
        stopped = self._named.take(sender, most) if self._named is not None else None
        with self._held.step("replay-transaction"):
            sender.send(most) if self._named is None else sender.sendTaken()
            if not unchanged():
                sender.abort()
                return False
            sender.commit()
        if stopped is not None:
            raise stopped
        return True

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell errors of the sender to people."""
        try:
            yield
        except Py4JJavaError as error:
            raise _failure_of(error, self._to) from error

    def _open(self) -> JavaObject:
        if self._sender is None:
            frozen = self.state.frozen(self._task, self._held.uri)
            assert frozen is not None
            self._check_same(frozen)
            # The group's name has the run that began the replay, so a new replay of the same name starts at 0.
            own = f"messagestore-{self._task.job_id}"
            self._sender = self._make_sender(own, f"{own}-{frozen.run}", by_position=False)
            if frozen.restores:
                self._sender.keepPlaces(json.dumps(wanted_places(self._restored(frozen))))
        return self._sender

    def _make_sender(self, transactions: str, progress: str, *, by_position: bool) -> JavaObject:
        make, to = extension(self._spark).KafkaSender, self._to
        named = to.topic_from
        key = to.key if to.envelope == "Native" and named is None else None
        topic, pattern = (to.topic, None) if named is None else (None, named.pattern)
        sender = make(json.dumps(access(to.cluster)), topic, pattern, key, transactions, progress, by_position)
        if self._named is not None:
            self._named.open(sender)
        return sender


def _failure_of(error: Py4JJavaError, to: KafkaDestination) -> RunFailedError:
    """The error of a sender, for people."""
    text = str(error)
    # The client has no class of its own for it.
    if "transaction.max.timeout.ms" in text:
        return RunFailedError(
            "TopicUnfit",
            f"the brokers at {to.cluster.bootstrap_servers} allow no transaction as long as those of a replay: set "
            "their transaction.max.timeout.ms to at least 60000, which is a minute",
        )
    which = f"topic {to.topic}" if to.topic_from is None else "a topic that a message names"
    if _TOO_LARGE_TO_SEND in text:
        return RunFailedError(
            "RecordTooLarge",
            f"a record of the selection for {which} has more than the 64 MiB that a replay holds of what it sends: "
            "leave the message out",
        )
    if "RecordTooLargeException" in text:
        return RunFailedError(
            "RecordTooLarge",
            f"{which} takes no record as large as one of the selection: raise its max.message.bytes, or leave "
            "the message out",
        )
    if any(sign in text for sign in _REFUSED):
        return RunFailedError(
            "TopicUnfit",
            f"{which} refuses a record of the selection: raise its message.timestamp.before.max.ms and "
            "message.timestamp.after.max.ms if it refuses the time; if it is compacted, choose another "
            "destination.kafka.key, as it takes no record without one; or leave the message out",
        )
    if "ProducerFencedException" in text or "InvalidProducerEpochException" in text:
        return RunFailedError("Fenced", "another run of this replay has begun to send; this one ends")
    return kafka_failure(error, to.cluster)
