"""Transactions of a Kafka producer. Needs extra "kafka"; imported when a sink is made."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from messagestore.kafka_access import UNREACHABLE, RefusalError
from messagestore.records import Record

ABORT_SECONDS = 5.0
TOPIC_SECONDS = 5.0
"""How long to wait for a topic: brokers may be creating it."""

_SETTINGS = {
    # That of Kafka's Java clients: records with the same key are in one partition, whichever client sends them.
    "partitioner": "murmur2_random",
    "compression.type": "lz4",
    # Smaller than any topic's limit, so that only a record that is too large itself is refused, and by the topic.
    "batch.size": 64 << 10,
    "message.max.bytes": 256 << 20,
    # The batch is in memory already, and the writer bounds its size.
    "queue.buffering.max.messages": 0,
    "queue.buffering.max.kbytes": 2**31 - 1,
    "reconnect.backoff.max.ms": 2000,
    "delivery.report.only.error": True,
    # Errors are raised.
    "log_level": 0,
}


class Transactions:
    """A producer's transactions, one after the other. Don't use it again after a refusal.

    Args:
        transactional_id: of the producer. A second producer with the same id aborts the first one's open transaction.
        timeout_seconds: after which the brokers abort the transaction of a producer that is gone.

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
            RefusalError: it was aborted; or the commit was not answered, and its outcome is unknown.
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
            # An open transaction would keep readers of committed records waiting.
            with suppress(KafkaException):
                self._producer.abort_transaction(ABORT_SECONDS)
            raise

    def close(self) -> None:
        """Stop the client, even if an exception's frames still refer to this object."""
        del self._producer

    def _find(self, topic: str, until: float) -> None:
        """Wait until the brokers know the topic; raise at once where they refuse the credentials."""
        until_known, patience = min(until, time.monotonic() + TOPIC_SECONDS), 1.0
        while True:
            try:
                error = self._producer.list_topics(topic, min(patience, _left(until))).topics[topic].error
                last = time.monotonic() > until_known
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
        """Wait until all records are taken or one is refused; raise where one is refused or time runs out."""
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
            # The call's error only says that there was no answer; the connections' error says why.
            if error.name() in UNREACHABLE:
                with suppress(KafkaException):
                    self._producer.poll(0)
                error = self._heard.error or error
            raise RefusalError(error.name(), error.str()) from failure


class _Heard:
    """Errors that the client reports. A class of its own, so that no cycle of references keeps the producer alive.

    Its methods call nothing, because after a fatal error the client calls them with an exception pending.

    Attributes:
        error: the last error of connections.
        refused: why the first refused record was refused.
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
