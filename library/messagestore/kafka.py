"""A Kafka topic as a writer's sink."""

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
    """A topic. Each batch is one transaction: readers of committed records see all of it or nothing.

    Writers and threads may share it. It connects with the first batch, and again after a failure.

    Args:
        cluster: how it is reached; it names the environment variables with user and password. A text is the bootstrap
            servers of a cluster without authentication.
        transactional_id: absent: one of the sink's own, ``messagestore-writer-…``. A given id ends an earlier sink with
            that id: the brokers abort its open transaction, and refuse its later writes.
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
        # Find errors of the settings now, and not with the first batch.
        _client()
        client_settings(self._cluster, os.environ)

    def write(self, records: Sequence[Record]) -> None:
        """Write a batch as one transaction; nothing without records.

        Raises:
            StorageError: topic or brokers refuse it, and none of it was written; or the commit was not answered, and
                the batch may have been written.
        """
        if not records:
            return
        with self._lock:
            # After a failure the client is not used again, so it is put back only at the end.
            transactions, self._open = self._open, None
            try:
                until = time.monotonic() + self._timeout
                if transactions is None:
                    transactions = _client()(client_settings(self._cluster, os.environ), self._id, self._timeout)
                transactions.send(self._topic, records, until)
            except RefusalError as refusal:
                if transactions is not None:
                    self._give_up(transactions, refusal)
                largest = max(len(record.line) for record in records)
                why = advice(refusal, self._cluster, self._id, largest)
                raise StorageError(f"topic {self._topic} can't be written: {why}") from refusal
            self._open = transactions

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            if self._open is not None:
                self._open.close()
                self._open = None

    def _give_up(self, transactions: Transactions, refusal: RefusalError) -> None:
        """Keep a client that another sink has fenced, so that later writes fail too; close any other."""
        if refusal.code == FENCED and self._gives_way:
            self._open = transactions
        else:
            transactions.close()


def _client() -> type[Transactions]:
    """Import the client late, as most writers need none.

    Raises:
        MessageStoreError: it is not installed.
    """
    try:
        from messagestore.kafka_transactions import Transactions
    except ModuleNotFoundError as error:
        raise MessageStoreError(
            f"{error.name} is missing; in a clone of the project: pip install '.[library,kafka]'"
        ) from error
    return Transactions
