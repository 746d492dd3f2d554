"""No tenant fills the operator's memory, which has a limit: then it would serve nobody."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from messagestore_operator.api import MessageStream
from messagestore_operator.cluster.runref import run_annotations, run_labels
from messagestore_operator.decide.snapshot import RunRef
from support.operators import FAST, Operator, eventually, running_operator
from support.tenants import Tenants

LIMIT = 384
"""MiB, of the chart's default."""
LARGE = (300, 1_000_000)
"""Number of objects, and the bytes of each."""


def test_large_objects_of_a_tenant_fill_no_operators_memory_nor_that_of_the_next(
    tenants: Tenants, tmp_path: Path
) -> None:
    """ConfigMaps that say that they belong to runs, as large as the API server takes them."""
    assert tenants.one.stream("orders", suspend=True).accepted
    stream = MessageStream.model_validate(tenants.one.read("MessageStream", "orders"))
    tenants.operator.kill()
    path = f"/api/v1/namespaces/{tenants.one.namespace}/configmaps"
    with _served(tenants, tmp_path) as running:
        for number in range(LARGE[0]):
            answer = tenants.one.server.request("POST", path, _forged(stream, f"large-{number}", LARGE[1]))
            assert answer.accepted, answer.body
        peaks = [_peak(running)]
    with _served(tenants, tmp_path) as restarted:
        # It watches: a change of a resource reaches it.
        assert tenants.one.change("MessageStream", "orders", {"spec": {"suspend": False}}).accepted
        eventually(lambda: tenants.launched(tenants.one), of=restarted, seconds=60)
        peaks.append(_peak(restarted))
    assert max(peaks) < LIMIT


@contextmanager
def _served(tenants: Tenants, folder: Path) -> Iterator[Operator]:
    """An operator that leads without a Lease, as the API server is slow with such objects."""
    settings = {**tenants.chart.settings, **FAST, "leader": {"enabled": False}}
    with running_operator(tenants.one.server, folder, settings, tenants.chart.kubeconfig) as operator:
        eventually(lambda: operator.get("/readyz")[0] == 200, of=operator, seconds=60)
        yield operator
        assert operator.process.poll() is None, operator.text


def _forged(stream: MessageStream, name: str, size: int) -> dict[str, Any]:
    ref = RunRef(stream.metadata.namespace, name, 1, "ingest")
    metadata = {"name": name, "labels": run_labels(ref, stream), "annotations": run_annotations(ref)}
    return {"metadata": metadata, "data": {"report.json": "x" * (size // 2), "control.json": "x" * (size // 2)}}


def _peak(operator: Operator) -> float:
    """MiB that a process has held at most."""
    lines = Path(f"/proc/{operator.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
