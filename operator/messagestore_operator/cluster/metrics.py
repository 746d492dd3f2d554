"""Metrics for Prometheus: reconciling, runs, messages, dead letters and lag."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from messagestore_operator.api import MessageStream
from messagestore_operator.api.messagestream_status import Lag
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.labels import RUN_KIND
from messagestore_operator.cluster.observe import app_state
from messagestore_operator.decide.snapshot import RunKind
from messagestore_operator.kube.health import Health
from messagestore_operator.kube.objects import labels_of

_RUN_KINDS = frozenset(get_args(RunKind))
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """All metrics of the operator, in their own registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        name = "messagestore_operator"
        self.reconciled = Histogram(
            f"{name}_reconcile_seconds",
            "Time that reconciling a resource took.",
            ["kind"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.errors = Counter(
            f"{name}_reconcile_errors",
            "Reconciliations of a resource that failed.",
            ["kind", "error"],
            registry=self.registry,
        )
        self.requests = Counter(
            f"{name}_requests",
            "Requests to the API server. Status 0 is no answer.",
            ["method", "status"],
            registry=self.registry,
        )
        self.missed = Counter(
            f"{name}_watch_missed", "Changes that a list showed and no watch had shown.", registry=self.registry
        )
        self.leading = Gauge(f"{name}_leading", "Whether this replica leads.", registry=self.registry)

    def watch_health(self, stalled: Callable[[], bool]) -> None:
        """Add a gauge of the operator's health."""
        words = "Whether this replica is late with its work, or makes no progress."
        Gauge("messagestore_operator_stalled", words, registry=self.registry).set_function(stalled)

    def observe_request(self, method: str, status: int) -> None:
        """Count a request; status 0 is no answer."""
        self.requests.labels(method, str(status)).inc()

    def watch_queue(self, depth: Callable[[], float], lateness: Callable[[], float]) -> None:
        """Add gauges of the work queue."""
        name = "messagestore_operator_queue"
        Gauge(f"{name}_depth", "Resources that are due.", registry=self.registry).set_function(depth)
        late = Gauge(
            f"{name}_lateness_seconds", "How long the resource that has been due longest waits.", registry=self.registry
        )
        late.set_function(lateness)

    def watch_cache(self, cache: Cache) -> None:
        """Add metrics of the cluster, computed when the page is rendered, in a thread of its own."""
        self.registry.register(_ClusterCollector(cache))


class _ClusterCollector(Collector):
    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """The present figures."""
        yield self._runs()
        yield from self._streams()

    def _runs(self) -> Metric:
        family = GaugeMetricFamily(
            "messagestore_runs", "Runs that have an application, a ConfigMap or a pod.", labels=["kind", "state"]
        )
        tally: Tally[tuple[str, str]] = Tally()
        for _, run in self._cache.all_runs():
            main = run.application or run.config_map or run.driver
            kind = labels_of(main).get(RUN_KIND, "") if main is not None else ""
            # Whoever may edit a ConfigMap can write any text there.
            if kind in _RUN_KINDS:
                tally[kind, app_state(run.application).value] += 1
        for labels, number in sorted(tally.items()):
            family.add_metric(labels, number)
        return family

    def _streams(self) -> Iterator[Metric]:
        labels = ["namespace", "stream"]
        messages = GaugeMetricFamily("messagestore_messages", "Messages in the store.", labels=labels)
        dead = GaugeMetricFamily(
            "messagestore_dead_letters", "Dead letters in the store that are open: not redriven.", labels=labels
        )
        files = GaugeMetricFamily(
            "messagestore_lag_files",
            "Files that have not been read yet. No series while that is unknown.",
            labels=labels,
        )
        waits = GaugeMetricFamily(
            "messagestore_lag_seconds",
            "Age of the oldest record that has not been read yet. No series while that is unknown.",
            labels=labels,
        )
        now = datetime.now(UTC)
        for stream in self._cache.resources():
            if not isinstance(stream, MessageStream) or stream.status is None:
                continue
            values = [stream.metadata.namespace, stream.metadata.name]
            table, lag = stream.status.table, stream.status.lag
            if table is not None:
                _add(messages, values, table.messages)
                _add(dead, values, table.dead_letters)
            if lag is not None:
                _add(files, values, lag.files)
                _add(waits, values, _waiting_seconds(lag, now))
        yield from (messages, dead, files, waits)


def _add(metric: GaugeMetricFamily, labels: list[str], value: float | None) -> None:
    """Add a figure; one that isn't known has no series."""
    if value is not None:
        metric.add_metric(labels, value)


def _waiting_seconds(lag: Lag, now: datetime) -> float | None:
    """How long the oldest record waits; 0 if none does, None if that isn't known."""
    if lag.oldest_pending_time is not None:
        return (now - lag.oldest_pending_time.datetime).total_seconds()
    return 0 if 0 in (lag.files, lag.records) else None


@dataclass(frozen=True)
class Telemetry:
    """The operator's metrics, for Prometheus, and its health, for the kubelet."""

    metrics: Metrics
    health: Health
