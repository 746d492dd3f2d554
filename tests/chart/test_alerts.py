"""Prometheus' own tool takes the alerts of the chart: each fires on its series, and on no healthy ones."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.metrics import Metrics
from support.helm import CHART, REPOSITORY, HelmError, rendered
from support.prometheus import program
from support.resources import all_resources

ON = (
    "--set",
    "metrics.prometheusRule.enabled=true,metrics.prometheusRule.runbooks=https://docs.example.org/runbooks,"
    "metrics.prometheusRule.alerts.NoRetention.enabled=true",
)
OPERATOR = 'namespace="messagestore", service="store-message-store-operator-metrics"'
NAMES = tuple(YAML(typ="safe").load(CHART / "values.yaml")["metrics"]["prometheusRule"]["alerts"])

DAY, STEP = 24 * 3600, 900
"""Seconds of a day and of a step."""
DAYS, MOST_DAYS = 2, 8
"""How long it takes until most alerts fire, and all of them. They are looked at in the end."""
EVERY = 'namespace="a", name="x"'
FIRING: dict[str, dict[str, str | int]] = {
    "StreamStalled": {f'condition{{kind="MessageStream", {EVERY}, type="Stalled", status="True"}}': "1"},
    "NoSuccessfulRun": {
        f'last_success_timestamp_seconds{{kind="MessageStream", {EVERY}}}': "0",
        f'last_run_failed{{kind="MessageStream", {EVERY}}}': "1",
    },
    "LagGrowing": {'lag_seconds{namespace="a", stream="x"}': "3601"},
    "RecordsLost": {'records_lost_total{namespace="a", stream="x"}': "0+1"},
    "DeadLetterSpike": {
        'records_total{namespace="a", stream="x", outcome="stored"}': "0+90",
        'records_total{namespace="a", stream="x", outcome="dead_lettered"}': "0+10",
    },
    "DeadLettersAgeing": {'dead_letters{namespace="a", stream="x"}': "1"},
    "SmallFiles": {'table_small_files{namespace="a", stream="x"}': "1001"},
    "PurgeFailed": {f'last_run_failed{{kind="RetentionPolicy", {EVERY}}}': "1"},
    "ApprovalWaiting": {'awaiting_approval{namespace="a", policy="x", stream="y"}': "1"},
    "ErasureDueSoon": {'erasure_due_timestamp_seconds{namespace="a", policy="x", stream="y"}': 1800},
    "ErasureOverdue": {'erasure_due_timestamp_seconds{namespace="a", policy="x", stream="y"}': "60"},
    "RetentionBlocked": {f'condition{{kind="RetentionPolicy", {EVERY}, type="RetentionBlocked", status="True"}}': "1"},
    "ReplayFailing": {f'last_run_failed{{kind="ReplayJob", {EVERY}}}': "1"},
    "DestinationFailing": {
        'destination_condition{namespace="a", job="x", destination="y", type="Ready", status="False"}': "1"
    },
    "SubscriptionLagging": {'subscription_lag_seconds{namespace="a", job="x", destination="y"}': "3601"},
    "IntegrityBroken": {'replay_broken_messages{namespace="a", job="x"}': "1"},
    "NoRetention": {
        'messages{namespace="a", stream="x"}': "1",
        'awaiting_approval{namespace="b", policy="y", stream="x"}': "0",
    },
    "DriverPending": {f'waiting_since_timestamp_seconds{{{EVERY}, waiting_for="driver"}}': -301},
    "TableLeaseStuck": {f'waiting_since_timestamp_seconds{{{EVERY}, waiting_for="table"}}': -3601},
    "ReconcileErrors": {'operator_reconcile_errors_total{kind="MessageStream", error="KeyError"}': "0+1"},
    "MetricsAbsent": {},
    "OperatorStalled": {f"operator_stalled{{{OPERATOR}}}": "1"},
    "OperatorHasNoLeader": {f"operator_leading{{{OPERATOR}}}": "0"},
}
"""Series by which an alert fires, without ``messagestore_``.

Each has a value, or a first one and what each step adds, or a time in seconds from the end.
"""
HEALTHY: dict[str, str | int] = {
    f"operator_leading{{{OPERATOR}}}": "1",
    f"operator_stalled{{{OPERATOR}}}": "0",
    'operator_reconcile_errors_total{kind="MessageStream", error="KeyError"}': "3",
    'condition{kind="MessageStream", namespace="a", name="x", type="Ready", status="True"}': "1",
    'last_success_timestamp_seconds{kind="MessageStream", namespace="a", name="x"}': "0",
    'last_run_failed{kind="MessageStream", namespace="a", name="x"}': "0",
    'last_run_failed{kind="RetentionPolicy", namespace="a", name="x"}': "0",
    'last_run_failed{kind="ReplayJob", namespace="a", name="x"}': "0",
    'condition{kind="MessageStream", namespace="a", name="on", type="Ready", status="True"}': "1",
    'last_success_timestamp_seconds{kind="MessageStream", namespace="a", name="on"}': "0",
    'last_run_failed{kind="MessageStream", namespace="a", name="on"}': "1",
    'condition{kind="ReplayJob", namespace="a", name="on", type="Ready", status="True"}': "1",
    'last_run_failed{kind="ReplayJob", namespace="a", name="on"}': "1",
    'lag_seconds{namespace="a", stream="x"}': "3600",
    'records_lost_total{namespace="a", stream="x"}': "7",
    'records_total{namespace="a", stream="x", outcome="stored"}': "0+96",
    'records_total{namespace="a", stream="x", outcome="dead_lettered"}': "0+4",
    'dead_letters{namespace="a", stream="x"}': "0",
    'table_small_files{namespace="a", stream="x"}': "1000",
    'awaiting_approval{namespace="a", policy="x", stream="y"}': "0",
    'erasure_due_timestamp_seconds{namespace="a", policy="x", stream="y"}': 2 * DAY,
    'destination_condition{namespace="a", job="x", destination="y", type="Ready", status="True"}': "1",
    'subscription_lag_seconds{namespace="a", job="x", destination="y"}': "3600",
    'replay_broken_messages{namespace="a", job="x"}': "0",
    'messages{namespace="a", stream="y"}': "1",
    'messages{namespace="a", stream="empty"}': "0",
    f'waiting_since_timestamp_seconds{{{EVERY}, waiting_for="driver"}}': -300,
    f'waiting_since_timestamp_seconds{{{EVERY}, waiting_for="table"}}': -3600,
    f'waiting_since_timestamp_seconds{{{EVERY}, waiting_for="slot"}}': "0",
}


@pytest.fixture(scope="module")
def rules() -> dict[str, Any]:
    (rule,) = [one for one in rendered(*ON) if one["kind"] == "PrometheusRule"]
    spec: dict[str, Any] = rule["spec"]
    return spec


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_fires_on_its_fault(rules: dict[str, Any], name: str, tmp_path: Path) -> None:
    known = {key.partition("{")[0] for key in FIRING[name]}
    leads: dict[str, str | int] = {f"operator_leading{{{OPERATOR}}}": "1"}
    others = {} if "operator_leading" in known or name == "MetricsAbsent" else leads
    days = MOST_DAYS if name == "DeadLettersAgeing" else DAYS
    firing = _firing(rules, {**others, **FIRING[name]}, days, tmp_path)
    assert f"MessageStore{name}" in firing
    also = {"MetricsAbsent": {"MessageStoreOperatorHasNoLeader"}}
    assert firing - {f"MessageStore{name}"} == also.get(name, set())


def test_no_alert_fires_while_all_is_well(rules: dict[str, Any], tmp_path: Path) -> None:
    assert _firing(rules, HEALTHY, MOST_DAYS, tmp_path) == set()


def test_alerts_and_series_are_those_that_there_are(rules: dict[str, Any]) -> None:
    metrics = Metrics()
    metrics.watch_health(lambda: False)
    metrics.watch_cache(Cache())
    figures = set(re.findall(r"^# TYPE (\S+)", metrics.page().decode(), re.MULTILINE))
    named = {f"messagestore_{key.partition('{')[0]}" for series in (HEALTHY, *FIRING.values()) for key in series}
    assert named - figures == set()
    assert set(FIRING) == set(NAMES)


def test_the_page_of_figures_is_as_prometheus_wants_it() -> None:
    metrics, cache = Metrics(), Cache()
    metrics.watch_cache(cache)
    for number, one in enumerate(all_resources()):
        about = {"name": f"it-{number}", "namespace": "shop", "uid": f"it-{number}", "resourceVersion": "1"}
        cache.put({**one, "metadata": about})
    page = metrics.page()
    assert page.count(b"\nmessagestore_condition{") > 5
    checked = subprocess.run([program("promtool"), "check", "metrics"], input=page, capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_each_alert_has_its_runbook(rules: dict[str, Any]) -> None:
    page = (REPOSITORY / "docs/runbooks.md").read_text()
    headings = {line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")}
    (group,) = rules["groups"]
    assert headings == {rule["alert"] for rule in group["rules"]}
    urls = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in group["rules"]}
    assert urls == {name: f"https://docs.example.org/runbooks#{name.lower()}" for name in headings}


def test_no_alert_requires_retention_unless_a_value_enables_it() -> None:
    (rule,) = [one for one in rendered(*ON[:1], ON[1].rpartition(",")[0]) if one["kind"] == "PrometheusRule"]
    assert "MessageStoreNoRetention" not in {one["alert"] for one in rule["spec"]["groups"][0]["rules"]}


def test_an_unknown_alert_in_the_values_is_refused() -> None:
    alert = '{"severity":"info","for":"1m"}'
    with pytest.raises(HelmError, match=r"alerts.NoSuch: there is no such alert; there are ApprovalWaiting, "):
        rendered(*ON, f"--set-json=metrics.prometheusRule.alerts.NoSuch={alert}")


def test_an_alert_that_is_not_enabled_is_left_out() -> None:
    (rule,) = [
        one
        for one in rendered(*ON, "--set", "metrics.prometheusRule.alerts.SmallFiles.enabled=false")
        if one["kind"] == "PrometheusRule"
    ]
    names = {one["alert"] for one in rule["spec"]["groups"][0]["rules"]}
    assert names == {f"MessageStore{name}" for name in NAMES} - {"MessageStoreSmallFiles"}


def _firing(rules: dict[str, Any], series: dict[str, str | int], days: int, folder: Path) -> set[str]:
    """The names of the alerts that fire by these series: promtool tells what it has got instead of something else."""
    end = days * DAY

    def values(value: str | int) -> str:
        first = str(end + value) if isinstance(value, int) else value
        return f"{first if '+' in first else f'{first}+0'}x{end // STEP}"

    inputs = [{"series": f"messagestore_{name}", "values": values(value)} for name, value in series.items()]
    alerts = 'count by (alertname) (ALERTS{alertstate="firing"})'
    wrong = {"expr": alerts, "eval_time": f"{end}s", "exp_samples": [{"labels": '{none=""}', "value": -1}]}
    test = {"interval": f"{STEP}s", "input_series": inputs, "promql_expr_test": [wrong]}
    (folder / "rules.json").write_text(json.dumps(rules))
    tests = {"rule_files": ["rules.json"], "evaluation_interval": f"{STEP}s", "tests": [test]}
    (folder / "test.json").write_text(json.dumps(tests))
    command = [program("promtool"), "test", "rules", "test.json"]
    said = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    _, found, got = said.stdout.partition("got: ")
    assert found, said.stdout
    return set(re.findall(r'alertname="(\w+)"', got))
