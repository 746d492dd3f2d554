"""Transactions of a Kafka producer. Needs extra "kafka"; imported when a sink is made."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from messagestore.kafka_access import UNREACHABLE, RefusalError
from messagestore.records import Record

ABORT_SECONDS = 5.0
TOPIC_SECONDS = 5.0
"""How long a topic is looked for: brokers may be making it."""

_SETTINGS = {
    # As Kafka's Java clients choose it: records with one key are together, whoever sends them.
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    # Smaller than what any topic takes: only a record that is too large by itself is refused, and by the topic alone.
    "batch.size": 64 << 10,
    "message.max.bytes": 256 << 20,
    # A batch is in memory already; how large it is says the writer.
    "queue.buffering.max.messages": 0,
    "queue.buffering.max.kbytes": 2**31 - 1,
    "reconnect.backoff.max.ms": 2000,
    "delivery.report.only.error": True,
    # What goes wrong is raised.
    "log_level": 0,
}


class Transactions:
    """A producer's transactions, one after the other. After a refusal it is of no more use.

    Args:
        settings: how the cluster is reached.
        transactional_id: the producer's. A second one with it ends the first one's open transaction.
        timeout_seconds: after which the brokers take back a transaction whose producer is gone.

    Raises:
        RefusalError: the client can't be made of these settings.
    """

    def __init__(self, settings: Mapping[str, str], transactional_id: str, timeout_seconds: float) -> None:
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": int(timeout_seconds * 1000)}
        self._heard = _Heard()
        self._ready = False
        with self._refusals():
            self._producer = Producer({**_SETTINGS, **settings, **own, "error_cb": self._heard.hear})

    def send(self, topic: str, records: Sequence[Record], until: float) -> None:
        """Send records in one transaction.

        Raises:
            RefusalError: it was taken back; or, where a commit was not answered, it is not known.
        """
        with self._refusals():
            self._producer.poll(0)
            self._heard.forget()
            self._find(topic, until)
            if not self._ready:
                self._producer.init_transactions(_left(until))
                self._ready = True
            self._producer.begin_transaction()
        try:
            with self._refusals():
                for record in records:
                    self._producer.produce(topic, record.line, record.key, on_delivery=self._heard.delivered)
                self._deliver(until)
                self._producer.commit_transaction(_left(until))
        except RefusalError:
            # Lest readers of committed records wait for it.
            with suppress(KafkaException):
                self._producer.abort_transaction(ABORT_SECONDS)
            raise

    def close(self) -> None:
        """End what the client does, though an exception's frames may still refer to this."""
        del self._producer

    def _find(self, topic: str, until: float) -> None:
        """Wait for brokers that know the topic; where credentials are refused, don't."""
        until_found, patience = min(until, time.monotonic() + TOPIC_SECONDS), 1.0
        while True:
            try:
                error = self._producer.list_topics(topic, min(patience, _left(until))).topics[topic].error
                last = time.monotonic() > until_found
            except KafkaException as failure:
                error, last = failure.args[0], time.monotonic() > until
                self._producer.poll(0)
                if self._heard.is_denial():
                    raise
            if error is None:
                return
            if last:
                raise KafkaException(error)
            patience *= 2
            time.sleep(0.2)

    def _deliver(self, until: float) -> None:
        """Wait for all records to be taken, or for the first that is not: those behind it wait for nothing."""
        while unsent := self._producer.flush(min(0.1, _left(until))):
            if self._heard.refused is not None:
                raise KafkaException(self._heard.refused)
            if time.monotonic() > until:
                raise RefusalError("_TIMED_OUT", f"{unsent} records were not taken in time")

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as failure:
            error = failure.args[0]
            # That there was no answer is said by the call; why, by the connections.
            if error.name() in UNREACHABLE:
                with suppress(KafkaException):
                    self._producer.poll(0)
                error = self._heard.error or error
            raise RefusalError(error.name(), error.str()) from failure


class _Heard:
    """What the client told. Apart from the producer's owner, so that no circle of references keeps the producer.

    Its methods call nothing, because the client calls them with an exception pending after a fatal error.

    Attributes:
        error: what connections failed with last.
        refused: why the first record was refused that was.
    """

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.refused: KafkaError | None = None

    def forget(self) -> None:
        self.error = self.refused = None

    def hear(self, error: KafkaError) -> None:
        self.error = error

    def delivered(self, error: KafkaError | None, _: Message) -> None:
        if self.refused is None:
            self.refused = error

    def is_denial(self) -> bool:
        return self.error is not None and self.error.name() in ("_AUTHENTICATION", "_SSL")


def _left(until: float) -> float:
    return max(0.1, until - time.monotonic())
