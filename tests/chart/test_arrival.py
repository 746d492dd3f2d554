"""Each value of the chart changes what it renders."""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from support.helm import CHART, KUBE_VERSION, NAMESPACE, RELEASE, helm
from support.long import few

Schema = dict[str, Any]
SCHEMA: Schema = json.loads((CHART / "values.schema.json").read_text())
EVERYTHING = Path(__file__).parent / "values" / "everything.yaml"
ON = {
    "crds": {"enabled": False},
    "metrics": {"dashboard": {"enabled": True, "folder": "stores"}},
    "networkPolicy": {"runs": {"enabled": True, "namespaces": ["billing"]}},
}
"""What others need beside everything.yaml."""
DIGEST = "sha256:" + "2" * 64
OTHER: dict[str, Any] = {
    **dict.fromkeys(("image.digest", "spark.image.digest"), DIGEST),
    **dict.fromkeys(("spark.scratch", "spark.scratchRequest", "spark.executorsFrom"), "7Mi"),
    **dict.fromkeys(("tenancy.sizes.driver.memory", "tenancy.sizes.executor.memory"), "64g"),
    "runs.windows": [{"cron": "0 1 * * *", "duration": "PT1H"}],
    "tenancy.storage.prefixes": {"*": ["s3a://other"]},
    "tenancy.storage.endpoints": ["https://other.example.org"],
    "tenancy.adoptions": [],
    "leader.duration": 70,
    "maintenance.every": "PT7M",
    "podDisruptionBudget.maxUnavailable": 2,
    "metrics.serviceMonitor.interval": "7s",
    "metrics.prometheusRule.alerts": {"StreamStalled": {"severity": "page", "for": "7m"}},
    "networkPolicy.apiServerPorts": [7443],
    "driver.serviceAccount.namespaceAnnotations": {"billing": {"example.org/role": "other"}},
    "test.uri": "s3a://other",
    "test.storage": {"credentialsSecretRef": {"name": "other"}},
}
"""Values that the type of a value alone would not suggest."""
BESIDE: dict[str, dict[str, Any]] = {
    "image.tag": {"image": {"digest": ""}},
    "crds.keep": {"crds": {"enabled": True}},
    "leader.enabled": {"replicas": 1},
    "metrics.service.enabled": {"metrics": {one: {"enabled": False} for one in ("serviceMonitor", "prometheusRule")}},
    "driver.serviceAccount.namespaceAnnotations": {"watch": {"namespaces": ["billing"]}, "test": {"namespace": ""}},
    "watch.namespaces": {"test": {"namespace": ""}},
}
"""What a value needs besides."""
BY_TYPE = {"string": "other", "array": ["other"], "object": {"other.example.org/a": "7"}}
BY_REFERENCE = {"duration": "PT7M", "memory": "3g", "namespaces": ["other"], "pullPolicy": "Never"}


def leaves(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """The values that are no group, by path, each with its schema."""
    for name, node in schema["properties"].items():
        place = f"{path}.{name}".strip(".")
        yield from leaves(node, place) if "properties" in node else [(place, node)]


LEAVES = dict(leaves(SCHEMA))


def other(path: str) -> Any:
    """A value that differs from that of everything.yaml."""
    if path in OTHER:
        return OTHER[path]
    node, now = LEAVES[path], value_at(base(), path.split("."))
    reference = node.get("$ref", "").removeprefix("#/$defs/")
    node = {**node, **(SCHEMA["$defs"][reference] if reference else {})}
    kinds = node.get("type", "string")
    kind = kinds if isinstance(kinds, str) else kinds[0]
    if kind == "boolean":
        return not now
    if kind in ("integer", "number"):
        return 7 if now != 7 else 8
    if "enum" in node:
        return next(one for one in node["enum"] if one != now)
    if kind == "array" and node["items"].get("type") == "object":
        return [{"name": "other"}]
    return BY_REFERENCE.get(reference, BY_TYPE[kind])


@functools.cache
def base() -> dict[str, Any]:
    """All values: the chart's own, under those of everything.yaml."""
    return functools.reduce(
        merged, [*(YAML(typ="safe").load(file) for file in (CHART / "values.yaml", EVERYTHING)), ON]
    )


def merged(under: Any, over: Any) -> Any:
    if not (isinstance(under, dict) and isinstance(over, dict)):
        return over
    return {**under, **{name: merged(under.get(name), value) for name, value in over.items()}}


def value_at(values: dict[str, Any], path: list[str]) -> Any:
    name, *rest = path
    return value_at(values.get(name) or {}, rest) if rest else values.get(name)


def with_value(values: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """The values with another one, which takes the place of a map instead of being merged with it."""
    name, *rest = path
    return {**values, name: with_value(values.get(name) or {}, rest, value) if rest else value}


def rendered(file: Path, values: dict[str, Any]) -> str:
    file.write_text(json.dumps(values))
    where = ("--namespace", NAMESPACE, "--kube-version", KUBE_VERSION)
    return helm("template", RELEASE, CHART, *where, "--values", file)


@pytest.mark.parametrize(
    "path",
    few(LEAVES, "spark.placement.executor.affinity", "extraArgs", "metrics.dashboard.prices.cpuHour", "runs.paused"),
)
def test_each_value_of_the_chart_changes_what_it_renders(path: str, tmp_path: Path) -> None:
    before = merged(base(), BESIDE.get(path, {}))
    after = with_value(before, path.split("."), other(path))
    file = tmp_path / "values.json"
    assert rendered(file, after) != rendered(file, before), f"nothing depends on {path}"
