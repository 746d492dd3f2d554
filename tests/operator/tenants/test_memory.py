"""No tenant fills the operator's memory, which has a limit: then it would serve nobody."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from messagestore_operator.api import MessageStream
from messagestore_operator.cluster.labels import run_annotations, run_labels
from messagestore_operator.decide.snapshot import RunRef
from support.operators import FAST, Operator, eventually, running_operator
from support.tenants import Tenant, Tenants

LIMIT = 384
"""MiB, of the chart's default."""
_AT_ONCE = 4
"""Connections that make objects."""
Make = Callable[[Tenant, int, int], None]
"""Makes the object of a number, of so many bytes."""


def _config_map(tenant: Tenant, number: int, size: int) -> None:
    """A ConfigMap that says that it belongs to a run of stream `orders`."""
    stream = MessageStream.model_validate(tenant.read("MessageStream", "orders"))
    ref = RunRef(stream.metadata.namespace, f"large-{size}-{number}", 1, "ingest")
    metadata = {"name": ref.name, "labels": run_labels(ref, stream), "annotations": run_annotations(ref)}
    document = {"metadata": metadata, "data": dict.fromkeys(("report.json", "control.json"), "x" * (size // 2))}
    answer = tenant.server.request("POST", f"/api/v1/namespaces/{tenant.namespace}/configmaps", document)
    assert answer.accepted, answer.body


def _stream(tenant: Tenant, number: int, size: int) -> None:
    """A stream that holds as many messages as its manifest can name."""
    holds = [{"name": name, "match": {"messageIds": [f"{name}{'x' * 998}"] * (size // 2000)}} for name in ("a", "b")]
    answer = tenant.stream(f"large-{number}", suspend=True, holds=holds)
    assert answer.accepted, answer.body


@pytest.mark.long
@pytest.mark.parametrize(
    ("make", "count", "size"), [(_config_map, 300, 1_000_000), (_config_map, 5000, 64 << 10), (_stream, 300, 1_450_000)]
)
def test_large_objects_of_a_tenant_do_not_fill_the_memory_of_the_operator_or_its_successor(
    tenants: Tenants, tmp_path: Path, make: Make, count: int, size: int
) -> None:
    """As large as the API server takes them, besides those of the cases before."""
    tenants.one.stream("orders", suspend=True)
    tenants.operator.kill()
    name = f"after-{size}"
    with _served(tenants, tmp_path) as running:
        _make_all(tenants.one, make, count, size)
        peaks = [_peak(running)]
    with _served(tenants, tmp_path) as restarted:
        # It watches: a new resource reaches it, in the other namespace.
        assert tenants.other.stream(name).accepted
        eventually(lambda: any(run.startswith(name) for run in tenants.launched(tenants.other)), 120, restarted)
        peaks.append(_peak(restarted))
    assert max(peaks) < LIMIT, peaks


def test_a_stream_that_is_too_large_says_so(tenants: Tenants, tmp_path: Path) -> None:
    tenants.operator.kill()
    with _served(tenants, tmp_path) as running:
        _stream(tenants.other, 0, 1_450_000)
        told = tenants.other.told("large-0", "InvalidSpec", of=running)
    assert "spec.holds: the spec has 14" in told.words
    assert "and the operator reads 262144" in told.words


def _make_all(tenant: Tenant, make: Make, count: int, size: int) -> None:
    """Make objects as fast as the API server takes them."""

    def some(first: int) -> None:
        own = replace(tenant, server=tenant.server.another())
        for number in range(first, count, _AT_ONCE):
            make(own, number, size)
        own.server.close()

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(some, range(_AT_ONCE)))


@contextmanager
def _served(tenants: Tenants, folder: Path) -> Iterator[Operator]:
    """An operator that leads without a Lease, as the API server is slow with such objects."""
    settings = {**tenants.chart.settings, **FAST, "leader": {"enabled": False}}
    with running_operator(tenants.one.server, folder, settings, tenants.chart.kubeconfig) as operator:
        eventually(lambda: operator.get("/readyz")[0] == 200, of=operator, seconds=120)
        yield operator
        assert operator.process.poll() is None, operator.text


def _peak(operator: Operator) -> float:
    """MiB that a process has held at most."""
    lines = Path(f"/proc/{operator.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
