"""The chart's alerts with times that suit a test, and waits for them."""

import re
from collections.abc import Sequence
from typing import Any

from support.helm import rendered
from support.prometheus import Alertmanager
from support.waiting import wait_until


def quick_rules(looks_back: str = "10s") -> dict[str, Any]:
    """The chart's rules, which fire after a second, and look back for so long."""
    objects = rendered("--set", "metrics.prometheusRule.enabled=true")
    (rule,) = [one for one in objects if one["kind"] == "PrometheusRule"]
    spec: dict[str, Any] = rule["spec"]
    for alert in spec["groups"][0]["rules"]:
        alert |= {"for": "1s", "expr": re.sub(r"\[\w+\]", f"[{looks_back}]", alert["expr"])}
    return spec


def wait_for_alerts(alerts: Alertmanager, names: set[str], seconds: float = 60, namespaces: Sequence[str] = ()) -> None:
    """Wait until these alerts fire and no others of some namespaces."""
    wanted = {f"MessageStore{name}" for name in names}
    wait_until(
        lambda: alerts.firing(namespaces) == wanted,
        seconds,
        lambda: f"wanted {wanted}: {alerts.firing(namespaces)}",
        beat=0.3,
    )
