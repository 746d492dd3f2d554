"""Each kind's status is told in figures; one that isn't known has no series."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.metrics import ResourcePage, drawing, page
from messagestore_operator.cluster.resource_metrics import FIGURES

EARLIER, LATER, NOW = "2026-01-05T08:00:00Z", "2026-01-05T08:00:30Z", datetime(2026, 1, 5, 9, tzinfo=UTC)
READY = {"type": "Ready", "status": "False", "reason": "SourceMissing"}
STREAM, POLICY, JOB = ("default", "orders"), ("default", "old", "orders"), ("default", "relay")


def run(state: str = "Succeeded", start: str = EARLIER, end: str | None = LATER, **more: Any) -> dict[str, Any]:
    return {"name": "r", "state": state, "startedAt": start, **({"finishedAt": end} if end else {}), **more}


def stream(status: dict[str, Any]) -> MessageStream:
    spec = {
        "table": {"uri": "s3a://lake/orders"},
        "source": {"files": {"uri": "s3a://landing/orders/"}},
        "trigger": {"manual": {}},
    }
    return MessageStream.model_validate({"metadata": {"name": "orders"}, "spec": spec, "status": status})


def policy(status: dict[str, Any]) -> RetentionPolicy:
    spec = {"streamRefs": [{"name": "orders"}], "trigger": {"manual": {}}, "rules": [{"name": "a", "maxAge": "P1D"}]}
    return RetentionPolicy.model_validate({"metadata": {"name": "old"}, "spec": spec, "status": status})


def job(status: dict[str, Any]) -> ReplayJob:
    spec = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://lake/replayed"}}}
    return ReplayJob.model_validate({"metadata": {"name": "relay"}, "spec": spec, "status": status})


def series(*resources: Resource) -> dict[tuple[str, ...], float]:
    """The value of each series, by the figure's name and the labels' values."""
    return {
        (sample.name.removeprefix("messagestore_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page(map(drawing, resources), NOW))
        for sample in family.samples
    }


def test_the_metrics_of_a_stream_come_from_its_status() -> None:
    status = {
        "conditions": [READY],
        "totals": {"received": 15, "stored": 1, "duplicates": 2, "deadLettered": 3, "filtered": 4, "discarded": 5},
        "table": {
            "messages": 7,
            "deadLetters": 3,
            "deadLettersByReason": [{"reason": "Unparseable", "count": 3}],
            "bytes": 900,
            "smallFiles": 2,
        },
        "lag": {"files": 2, "records": 9, "oldestPendingTime": EARLIER},
        "loss": {"records": 11},
        "sequences": {"incomplete": 4, "overdue": 1},
        "lifecycle": {"applied": 1, "stale": 2, "deadLettered": 3, "pending": 4, "unfinished": {"failed": 5}},
        "lastBatchTime": LATER,
        "lastBatch": {"readSeconds": 1.5, "decideSeconds": 0.2, "commitSeconds": 2.0, "waitedSeconds": 9.0},
        "maintenance": {"at": LATER},
        "lastRun": run("Failed", cpuSeconds=1.5, bytesWritten=77),
        "recentRuns": [run("Failed"), run(end=EARLIER)],
    }
    at = datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp()
    every = ("MessageStream", *STREAM)
    assert series(stream(status)) == {
        ("condition", *every, "Ready", "False", "SourceMissing"): 1,
        ("last_success_timestamp_seconds", *every): at,
        ("last_run_failed", *every): 1,
        ("last_run_seconds", *every): 30,
        ("last_run_cpu_seconds", *every): 1.5,
        ("last_run_written_bytes", *every): 77,
        ("records_total", *STREAM, "stored"): 1,
        ("records_total", *STREAM, "duplicate"): 2,
        ("records_total", *STREAM, "dead_lettered"): 3,
        ("records_total", *STREAM, "filtered"): 4,
        ("records_total", *STREAM, "discarded"): 5,
        ("messages", *STREAM): 7,
        ("dead_letters", *STREAM): 3,
        ("dead_letters_by_reason", *STREAM, "Unparseable"): 3,
        ("table_bytes", *STREAM): 900,
        ("table_small_files", *STREAM): 2,
        ("lag_files", *STREAM): 2,
        ("lag_records", *STREAM): 9,
        ("lag_seconds", *STREAM): 3600,
        ("records_lost_total", *STREAM): 11,
        ("incomplete_sequences", *STREAM): 4,
        ("overdue_sequences", *STREAM): 1,
        ("last_batch_timestamp_seconds", *STREAM): at + 30,
        ("last_batch_stage_seconds", *STREAM, "read"): 1.5,
        ("last_batch_stage_seconds", *STREAM, "decide"): 0.2,
        ("last_batch_stage_seconds", *STREAM, "commit"): 2,
        ("last_batch_waited_seconds", *STREAM): 9,
        ("last_maintenance_timestamp_seconds", *STREAM): at + 30,
        ("pending_updates", *STREAM): 4,
        ("status_updates_total", *STREAM, "applied"): 1,
        ("status_updates_total", *STREAM, "stale"): 2,
        ("status_updates_total", *STREAM, "dead_lettered"): 3,
        ("unfinished_messages", *STREAM, "RECEIVED"): 0,
        ("unfinished_messages", *STREAM, "PROCESSING"): 0,
        ("unfinished_messages", *STREAM, "FAILED"): 5,
    }


def test_the_last_success_of_a_stream_is_known_however_many_runs_have_failed_since() -> None:
    failed, own = {"lastRun": run("Failed"), "recentRuns": [run("Failed")]}, ("MessageStream", *STREAM)
    at = datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp()

    def last_success(status: dict[str, Any], created: str | None = None) -> float | None:
        one = stream(status)
        about = {**one.metadata.to_dict(), "creationTimestamp": created} if created else one.metadata.to_dict()
        known = MessageStream.model_validate({**one.to_dict(), "metadata": about})
        return series(known).get(("last_success_timestamp_seconds", *own))

    assert last_success({**failed, "lastSuccessTime": EARLIER}, created="2025-01-01T00:00:00Z") == at
    assert last_success(failed, created=EARLIER) == at
    assert last_success({}, created=EARLIER) is None


def test_a_topic_that_lost_nothing_says_so_as_the_first_loss_would_be_no_increase_otherwise() -> None:
    topic = {"kafka": {"bootstrapServers": "kafka:9092", "topics": ["orders"]}}
    status = {"totals": {"received": 1, "stored": 1}}
    known = stream(status)
    of_kafka = MessageStream.model_validate(
        {**known.to_dict(), "spec": {**known.spec.to_dict(), "source": topic}, "status": status}
    )
    assert series(of_kafka)["records_lost_total", *STREAM] == 0
    assert ("records_lost_total", *STREAM) not in series(known)


def test_the_metrics_of_a_policy_come_from_its_status() -> None:
    due, subscriptions = "2026-01-06T08:00:00Z", [{"name": "relay", "waiting": 6}]
    one = {
        "name": "orders",
        "awaitingApproval": True,
        "preview": {"id": "p", "messages": 4, "held": 2, "subscriptions": subscriptions},
        "lastPurge": {"run": "r", "at": LATER, "purged": 3, "eraseDueBy": due},
    }
    found = series(policy({"streams": [one]}))
    at = datetime(2026, 1, 5, 8, 0, 30, tzinfo=UTC).timestamp()
    assert found == {
        ("awaiting_approval", *POLICY): 1,
        ("preview_messages", *POLICY): 4,
        ("preview_held_messages", *POLICY): 2,
        ("unsent_messages", *POLICY, "relay"): 6,
        ("last_purge_timestamp_seconds", *POLICY): at,
        ("last_purge_messages", *POLICY): 3,
        ("erasure_due_timestamp_seconds", *POLICY): datetime(2026, 1, 6, 8, tzinfo=UTC).timestamp(),
    }
    one["lastPurge"] |= {"erasedAt": LATER}
    assert ("erasure_due_timestamp_seconds", *POLICY) in series(policy({"streams": [one]})), "others are left"
    del one["lastPurge"]["eraseDueBy"]
    assert ("erasure_due_timestamp_seconds", *POLICY) not in series(policy({"streams": [one]}))


@pytest.mark.parametrize(
    ("runs", "seconds"),
    [
        ([run(end=LATER), run(end=EARLIER)], 0),
        ([run(end=LATER), run("Failed")], None),
        ([run(end=LATER), None], None),
        ([], None),
    ],
)
def test_a_policy_succeeded_when_all_its_streams_have(runs: list[dict[str, Any] | None], seconds: float | None) -> None:
    streams = [{"name": f"s{n}", **({"lastRun": one} if one else {})} for n, one in enumerate(runs)]
    found = series(policy({"streams": streams})).get(("last_success_timestamp_seconds", "RetentionPolicy", *POLICY[:2]))
    began = datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp()
    assert (found is None) if seconds is None else found == began + seconds


def test_a_policy_has_failed_if_it_has_on_any_stream() -> None:
    states = [("a", "Succeeded", LATER), ("b", "Failed", EARLIER)]
    streams = [{"name": name, "lastRun": run(state, end=end)} for name, state, end in states]
    assert series(policy({"streams": streams}))["last_run_failed", "RetentionPolicy", *POLICY[:2]] == 1
    assert series(policy({"streams": streams[:1]}))["last_run_failed", "RetentionPolicy", *POLICY[:2]] == 0


def test_the_metrics_of_a_replay_and_its_destinations_come_from_its_status() -> None:
    eu = {
        "name": "eu",
        "cursor": {"globalPosition": 8, "missed": 1, "setAside": 2},
        "lag": {"records": 3, "oldestPendingTime": EARLIER},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Sending"}],
    }
    idle = {"name": "", "lag": {"records": 0}}
    status = {
        "selection": {"messages": 10},
        "progress": {"replayed": 4, "failed": 1, "percent": 40},
        "destinations": [eu, idle],
    }
    assert series(job(status)) == {
        ("replay_selected_messages", *JOB): 10,
        ("replay_sent_messages", *JOB): 4,
        ("replay_broken_messages", *JOB): 1,
        ("replay_percent", *JOB): 40,
        ("subscription_position", *JOB, "eu"): 8,
        ("subscription_missed_total", *JOB, "eu"): 1,
        ("subscription_set_aside_total", *JOB, "eu"): 2,
        ("subscription_lag_records", *JOB, "eu"): 3,
        ("subscription_lag_seconds", *JOB, "eu"): 3600,
        ("destination_condition", *JOB, "eu", "Ready", "True", "Sending"): 1,
        ("subscription_lag_records", *JOB, ""): 0,
        ("subscription_lag_seconds", *JOB, ""): 0,
    }


@pytest.mark.parametrize(
    ("current", "reason", "waits"),
    [
        ({"requestedAt": LATER}, "TableBusy", ("table", 30)),
        ({"requestedAt": LATER}, "WaitingForRoom", ("slot", 30)),
        ({"requestedAt": LATER}, "Waiting", None),
        ({"requestedAt": EARLIER, "launchedAt": LATER}, "Pending", ("driver", 30)),
        ({"requestedAt": EARLIER, "launchedAt": EARLIER, "startedAt": LATER}, "Ingesting", None),
    ],
)
def test_a_run_that_waits_tells_since_when(
    current: dict[str, str], reason: str, waits: tuple[str, float] | None
) -> None:
    status = {"conditions": [READY | {"reason": reason}], "currentRun": {"name": "r", **current}}
    found = {name[-1]: value for name, value in series(stream(status)).items() if name[0].startswith("waiting_since")}
    began = datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp()
    assert found == ({waits[0]: began + waits[1]} if waits else {})


def test_of_several_runs_of_a_policy_the_first_that_waits_counts() -> None:
    runs = [("a", LATER), ("b", EARLIER)]
    streams = [{"name": name, "currentRun": {"name": name, "launchedAt": at}} for name, at in runs]
    found = series(policy({"streams": streams}))
    began = datetime(2026, 1, 5, 8, tzinfo=UTC).timestamp()
    assert found["waiting_since_timestamp_seconds", "RetentionPolicy", *POLICY[:2], "driver"] == began


def test_a_resource_without_a_status_has_no_series() -> None:
    assert series(stream({}), policy({}), job({})) == {}


@given(st.lists(st.builds(stream, st.just({"conditions": [READY | {"reason": 'a"b\\\n\n\0'}]})), max_size=2))
def test_the_page_is_as_prometheus_own_client_writes_it(resources: list[MessageStream]) -> None:
    read = list(text_string_to_metric_families(text := page(map(drawing, resources), NOW)))
    assert [one.name for one in read] == [f"messagestore_{figure.name}" for figure in FIGURES]
    assert {sample.labels["reason"] for sample in read[0].samples} == ({'a"b\\\n\n\0'} if resources else set())

    class Read(Collector):
        def collect(self) -> Iterable[Metric]:
            return read

    registry = CollectorRegistry()
    registry.register(Read())
    assert sorted(generate_latest(registry).decode().splitlines()) == sorted(map(_by_label, text.splitlines()))


def _by_label(line: str) -> str:
    """A line with its labels in the order of their names."""
    found = re.fullmatch(r"(\w+){(.*)} (\S+)", line)
    if found is None:
        return line
    labels = re.findall(r'\w+="(?:[^"\\]|\\.)*"', found[2])
    return f"{found[1]}{{{','.join(sorted(labels))}}} {found[3]}"


def cached(name: str, version: int, status: dict[str, Any], cache: Cache) -> None:
    about = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    document = stream(status).to_dict()
    cache.put({**document, "metadata": {**document["metadata"], **about}})


def test_a_resource_is_drawn_once_for_each_version_and_grows_older_all_the_same() -> None:
    cache = Cache()
    lines, drawn = ResourcePage(cache), []
    peek = cache.peek
    cache.peek = lambda key: drawn.append(key[2]) or peek(key)
    for name in ("orders", "invoices"):
        cached(name, 1, {"lag": {"files": 1, "oldestPendingTime": EARLIER}}, cache)
    assert lines.text(NOW).count("\nmessagestore_lag_seconds{") == 2
    later = lines.text(NOW + timedelta(seconds=9))
    assert 'messagestore_lag_seconds{namespace="default",stream="orders"} 3609.0\n' in later
    assert drawn == ["orders", "invoices"]
    cached("orders", 2, {"lag": {"files": 0}}, cache)
    assert 'messagestore_lag_seconds{namespace="default",stream="orders"} 0.0\n' in lines.text(NOW)
    assert drawn == ["orders", "invoices", "orders"]
    cache.remove({"kind": "MessageStream", "metadata": {"namespace": "default", "name": "orders", "uid": "orders"}})
    assert "orders" not in lines.text(NOW)
