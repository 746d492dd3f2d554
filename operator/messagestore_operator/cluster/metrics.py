"""Metrics for Prometheus: of the operator, of runs, and of the three kinds."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from itertools import chain
from typing import NamedTuple, get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from messagestore_operator.api import Resource
from messagestore_operator.api.scalars import Time
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.labels import RUN_KIND
from messagestore_operator.cluster.observe import app_state
from messagestore_operator.cluster.resource_metrics import FIGURES, Figure, Since, samples
from messagestore_operator.decide.run_lifecycle import EndedRun
from messagestore_operator.decide.snapshot import RunKind
from messagestore_operator.kube.health import Health
from messagestore_operator.kube.objects import ResourceKey, labels_of

_RUN_KINDS = frozenset(get_args(RunKind))
_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_START_BUCKETS = (1, 2.5, 5, 10, 15, 20, 30, 45, 60, 120, 300, 600, 1800)
_RUN_BUCKETS = (1, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400)
_BETWEEN = "\n\n"
"""Between the lines of two figures: no line is empty, and none has a line break in it."""
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Metrics:
    """All metrics of the operator: its own and those of runs in a registry, those of the three kinds as text."""

    def __init__(self) -> None:
        self._resources: ResourcePage | None = None
        self.registry = CollectorRegistry()
        name = "messagestore_operator"
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        self.reconciled = histogram(
            f"{name}_reconcile_seconds", "Time that reconciling a resource took.", ["kind"], buckets=_BUCKETS
        )
        self.errors = counter(
            f"{name}_reconcile_errors", "Reconciliations of a resource that failed.", ["kind", "error"]
        )
        self.requests = counter(
            f"{name}_requests", "Requests to the API server. Status 0 is no answer.", ["method", "status"]
        )
        self.missed = counter(f"{name}_watch_missed", "Changes that a list showed and no watch had shown.")
        self.leading = gauge(f"{name}_leading", "Whether this replica leads.")
        self._runs = histogram(
            "messagestore_run_seconds",
            "How long runs took that ended while this replica led, from their start, by how they ended.",
            ["kind", "outcome"],
            buckets=_RUN_BUCKETS,
        )
        self._starts = histogram(
            "messagestore_driver_start_seconds",
            "Of the same runs: from the launch until the driver's program began, by its report.",
            ["kind"],
            buckets=_START_BUCKETS,
        )

    def observe_run(self, ended: EndedRun) -> None:
        """Note a run that has ended."""
        run, launched = ended.finished_run(), ended.run.launched_at
        if run.started_at is not None:
            self._runs.labels(run.kind, run.state).observe(_seconds(run.started_at, ended.at))
        # A report is untrusted, and its clock another one.
        begun = ended.report.started_at if ended.report is not None else None
        if launched is not None and begun is not None and begun.tzinfo is not None and begun <= ended.at:
            self._starts.labels(run.kind).observe(_seconds(launched, begun))

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
        self.registry.register(_RunsCollector(cache))
        self._resources = ResourcePage(cache)

    def page(self) -> bytes:
        """All of them as text."""
        of_resources = self._resources.text(datetime.now(UTC)) if self._resources else ""
        return generate_latest(self.registry) + of_resources.encode()


class _RunsCollector(Collector):
    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def collect(self) -> Iterator[Metric]:
        """How many runs there are now."""
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
        yield family


def _seconds(start: Time, end: datetime) -> float:
    return max(0.0, (end - start.datetime).total_seconds())


@dataclass(frozen=True)
class Telemetry:
    """The operator's metrics, for Prometheus, and its health, for the kubelet."""

    metrics: Metrics
    health: Health


class Drawn(NamedTuple):
    """The lines of one resource at one version, in little memory."""

    version: str | None
    figures: bytes
    """The number of each figure in ``FIGURES`` whose lines follow in ``text``."""
    text: str
    ages: tuple[tuple[int, str, float], ...]
    """Series that grow with time: the figure's number, name and labels, and since when."""


class ResourcePage:
    """The lines of all resources of a cache, for one thread at a time. Those of each are made once for each version.

    Thousands of resources have 100,000 series, and between two scrapes few of them change.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._drawn: dict[ResourceKey, Drawn] = {}

    def text(self, now: datetime) -> str:
        """The lines of all, below the head of each figure."""
        self._draw()
        return page(self._drawn.values(), now)

    def _draw(self) -> None:
        """Draw those that have changed."""
        drawn: dict[ResourceKey, Drawn] = {}
        for key in self._cache.resource_keys():
            known = self._drawn.get(key)
            if known is None or known.version != self._cache.version_of(key):
                resource = self._cache.peek(key)
                known = drawing(resource) if resource is not None else None
            if known is not None:
                drawn[key] = known
        self._drawn = drawn


def drawing(resource: Resource) -> Drawn:
    """The lines of a resource."""
    lines: dict[int, list[str]] = {}
    ages = []
    for name, labels, value in samples(resource):
        if value is None:
            continue
        number, template = _TEMPLATES[name]
        series = template % tuple(map(_escaped, labels))
        if isinstance(value, Since):
            ages.append((number, series, value.at))
        else:
            lines.setdefault(number, []).append(_line(series, value))
    text = _BETWEEN.join("\n".join(some) for some in lines.values())
    return Drawn(resource.metadata.resource_version, bytes(lines), text, tuple(ages))


def page(resources: Iterable[Drawn], now: datetime) -> str:
    """The lines of resources, below the head of each figure."""
    lines, at = [[head] for head in _HEADS], now.timestamp()
    for drawn in resources:
        for number, text in zip(drawn.figures, drawn.text.split(_BETWEEN), strict=False):
            lines[number].append(text)
        for number, series, since in drawn.ages:
            lines[number].append(_line(series, at - since))
    return "\n".join(chain.from_iterable(lines)) + "\n"


@lru_cache(maxsize=10_000)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPED)


def _line(series: str, value: float) -> str:
    number: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return f"{series} {number}"


def _template(figure: Figure) -> str:
    """A series, with ``%s`` for the value of each label."""
    return figure.full_name + "{" + ",".join(f'{label}="%s"' for label in figure.labels) + "}"


def _head(figure: Figure) -> str:
    return f"# HELP {figure.full_name} {figure.words}\n# TYPE {figure.full_name} {figure.type}"


_TEMPLATES = {figure.name: (number, _template(figure)) for number, figure in enumerate(FIGURES)}
_HEADS = tuple(map(_head, FIGURES))
