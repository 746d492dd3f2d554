"""The operator's access to a cluster, and its caches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from messagestore_operator.cluster.backend import SparkBackend
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.lease import TableLeases
from messagestore_operator.cluster.namespaces import Namespaces
from messagestore_operator.cluster.run_admission import RunAdmission
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.kube.client import KubeClient


@dataclass(frozen=True)
class Cluster:
    """What decisions need, and what executes them.

    Attributes:
        client: sends requests to the API server.
        backend: starts and reads Spark applications.
        cache: objects from watches, lists and own writes.
        leases: of tables.
        namespaces: knows which are being deleted or paused.
        starts: knows which runs may start.
        now: the time.
    """

    client: KubeClient
    backend: SparkBackend
    cache: Cache
    leases: TableLeases
    namespaces: Namespaces
    admission: RunAdmission
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @classmethod
    def of(cls, client: KubeClient, backend: SparkBackend, own_namespace: str, bounds: RunBounds) -> Cluster:
        """A cluster with empty caches.

        Args:
            own_namespace: the namespace of the tables' Leases.
            bounds: limits of concurrent runs.
        """
        cache = Cache(backend.kind.name)
        leases, namespaces = TableLeases(client, own_namespace), Namespaces(client)
        return cls(client, backend, cache, leases, namespaces, RunAdmission(cache, bounds))
