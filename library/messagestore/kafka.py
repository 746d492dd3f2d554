"""A topic of Kafka as a writer's sink."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from messagestore.errors import MessageStoreError, StorageError
from messagestore.kafka_access import FENCED, RefusalError, advice, client_settings
from messagestore.records import Record
from messagestore_core.contract.records import KafkaCluster

if TYPE_CHECKING:
    from messagestore.kafka_transactions import Transactions


class KafkaSink:
    """A topic: each batch is one transaction, which readers of committed records see as a whole or not at all.

    May be shared by writers and threads. It connects with the first batch, and anew after a failure.

    Args:
        topic: its name.
        cluster: how it is reached, as a run document says it, which names the variables that hold user and password.
            Text: the bootstrap servers of a cluster that takes everybody.
        transactional_id: absent: one of the sink's own, ``messagestore-writer-…``. A sink that is given one puts an end
            to an earlier one with that id: what that has open is taken back, and what it writes later is refused.
        timeout_seconds: how long a batch may take, connecting included; at least 1.

    Raises:
        ArgumentError: the cluster's description is not complete.
        MessageStoreError: the client is not installed, or a variable is not set.
    """

    def __init__(
        self,
        topic: str,
        cluster: KafkaCluster | str,
        *,
        transactional_id: str | None = None,
        timeout_seconds: float = 60.0,
    ) -> None:
        self._topic = topic
        self._cluster = KafkaCluster(bootstrap_servers=cluster) if isinstance(cluster, str) else cluster
        self._id = transactional_id or f"messagestore-writer-{uuid.uuid4().hex[:12]}"
        self._gives_way = transactional_id is not None
        self._timeout = timeout_seconds
        self._open: Transactions | None = None
        self._lock = threading.Lock()
        # What can be told now is not left to the first batch.
        _client()
        client_settings(self._cluster, os.environ)

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch as one transaction; nothing without records.

        Raises:
            StorageError: topic or brokers refuse it, and nothing of it is there; or its commit was not answered, and
                it may be.
        """
        if not records:
            return
        with self._lock:
            # Out of reach while it is in use: only one that did all it was told to is used again.
            transactions, self._open = self._open, None
            try:
                until = time.monotonic() + self._timeout
                transactions = transactions or self._connected()
                transactions.send(self._topic, records, until)
            except RefusalError as refusal:
                if transactions is not None:
                    self._give_up(transactions, refusal)
                largest = max(len(record.line) for record in records)
                why = advice(refusal, self._cluster, self._id, largest)
                raise StorageError(f"topic {self._topic} can't be written: {why}") from refusal
            self._open = transactions

    def close(self) -> None:
        """Let go of the connections."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _connected(self) -> Transactions:
        settings = client_settings(self._cluster, os.environ)
        return _client()(settings, self._id, self._timeout)

    def _give_up(self, transactions: Transactions, refusal: RefusalError) -> None:
        """One that gave way to another is kept, and refuses all that follows; in place of others a new one is made."""
        if refusal.code == FENCED and self._gives_way:
            self._open = transactions
        else:
            transactions.close()


def _client() -> type[Transactions]:
    """Imported as late as this, because most writers need none.

    Raises:
        MessageStoreError: it is not installed.
    """
    try:
        from messagestore.kafka_transactions import Transactions
    except ModuleNotFoundError as error:
        raise MessageStoreError(
            f"{error.name} is missing: pip install 'message-store-operator[library,kafka]'"
        ) from error
    return Transactions
