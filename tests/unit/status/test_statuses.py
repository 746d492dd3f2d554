"""The statuses of resources, as tables: from reports, the store and the clock."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import (
    BatchTimes,
    IngestCounts,
    IngestOutcome,
    Lag,
    LifecycleOutcome,
    SequenceState,
)
from messagestore_core.contract.purge import EraseOutcome, Preview, Purged, PurgeOutcome, Unsent
from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_core.contract.run_report import Outcome, RunReport
from messagestore_core.contract.stores import TableState
from messagestore_operator.api import MessageStream, MessageStreamStatus, ReplayJob, RetentionPolicy
from messagestore_operator.api.status import CurrentRun
from messagestore_operator.status.conditions import condition_of
from messagestore_operator.status.facts import Outlook, StoreFacts, StreamResult
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.local_runs import policy_status, replay_status, stream_status
from messagestore_operator.status.reasons import Reason
from messagestore_operator.status.runs import api_error
from messagestore_operator.status.stream import with_view
from messagestore_operator.status.words import clock_time, received

NOW = datetime(2026, 1, 5, 8, 20, 12, tzinfo=UTC)
ENDED = NOW - timedelta(seconds=12)
TABLE = TableState(version=1, messages=329, dead_letters=1, bytes=812345, oldest_message_time=ENDED)
COUNTS = IngestCounts(received=331, stored=329, duplicates=1, dead_lettered=1)
INGESTED = IngestOutcome(counts=COUNTS, totals=COUNTS, batches=1, table=TABLE, lag=Lag(as_of=NOW))
BUSY = RunError(reason="TableBusy", message="another run is writing")
REFUSED = RunError(reason="TableRefused", message="holds something else")
UNKNOWN = RunError(reason="OutOfLuck", message="never heard of")


def report(
    outcome: Outcome | None = None, error: RunError | None = None, run: str = "run-1", **given: Any
) -> RunReport:
    state = "Failed" if error else "Succeeded"
    values = {"run": run, "sequence": 1, "state": state, "started_at": ENDED, "finished_at": ENDED, **given}
    return RunReport(outcome=outcome, error=error, **values)


def stream(status: Any = None, **spec: Any) -> MessageStream:
    given = {
        "table": {"uri": "s3a://lake/orders"},
        "source": {"files": {"uri": "s3a://landing/orders/"}},
        "trigger": {"interval": "PT5M"},
    }
    document = {"metadata": {"name": "orders", "generation": 3}, "spec": {**given, **spec}}
    return MessageStream.model_validate({**document, "status": status} if status else document)


def policy(**spec: Any) -> RetentionPolicy:
    given = {
        "streamRefs": [{"name": "orders"}],
        "trigger": {"manual": {}},
        "rules": [{"name": "old", "maxAge": "P90D"}],
    }
    return RetentionPolicy.model_validate({"metadata": {"name": "p"}, "spec": {**given, "mode": "Enforce", **spec}})


def job(**spec: Any) -> ReplayJob:
    given = {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/checks/"}}}
    return ReplayJob.model_validate({"metadata": {"name": "j"}, "spec": {**given, **spec}})


def told(status: Any) -> tuple[str, dict[str, tuple[str, str]], str]:
    """Phase, conditions and the message of Ready."""
    conditions = {one.type: (one.status, one.reason) for one in status.conditions}
    (message,) = [one.message for one in status.conditions if one.type == "Ready"]
    return status.phase, conditions, message


WAITS = {"Ready": ("False", "Pending"), "Reconciling": ("True", "Pending")}
STREAMS: list[tuple[dict[str, Any], RunReport | None, RunError | None, str, dict[str, tuple[str, str]], str]] = [
    ({}, None, None, "Pending", WAITS, "no message has been ingested yet"),
    ({}, report(INGESTED), None, "Idle", {"Ready": ("True", "Ingesting")}, "329 messages stored; last batch 12s ago"),
    ({"suspend": True}, None, None, "Suspended", {"Ready": ("True", "Suspended")}, "no run starts"),
    (
        {},
        report(error=BUSY),
        None,
        "Failing",
        {"Ready": ("False", "TableBusy"), "Reconciling": ("True", "TableBusy")},
        "another run is writing",
    ),
    (
        {},
        report(error=REFUSED),
        None,
        "Stalled",
        {"Ready": ("False", "TableRefused"), "Stalled": ("True", "TableRefused")},
        "holds something else",
    ),
    (
        {},
        None,
        UNKNOWN,
        "Failing",
        {"Ready": ("False", "OutOfLuck"), "Reconciling": ("True", "OutOfLuck")},
        "never heard of",
    ),
]


@pytest.mark.parametrize(("spec", "ended", "error", "phase", "conditions", "message"), STREAMS)
def test_phase_conditions_and_message_of_a_stream_follow_from_its_spec_and_last_run(
    spec: dict[str, Any],
    ended: RunReport | None,
    error: RunError | None,
    phase: str,
    conditions: dict[str, tuple[str, str]],
    message: str,
) -> None:
    found = told(stream_status(stream(**spec), NOW, ended, error=error))
    assert found[:2] == (phase, conditions)
    assert found[2].startswith(message)


def test_the_status_of_a_stream_has_the_figures_of_its_report() -> None:
    status = stream_status(stream(), NOW, report(INGESTED)).to_dict()
    assert status["observedGeneration"] == 3
    assert status["totals"] == {
        "received": 331,
        "stored": 329,
        "duplicates": 1,
        "deadLettered": 1,
        "filtered": 0,
        "discarded": 0,
        "unknownFields": 0,
    }
    assert status["table"]["messages"] == 329
    assert status["table"]["oldestMessageTime"] == "2026-01-05T08:20:00Z"
    assert status["lag"] == {"asOf": "2026-01-05T08:20:12Z", "files": 0, "summary": "0 files"}
    assert status["lastRun"] == status["recentRuns"][0]
    assert (status["lastRun"]["name"], status["lastRun"]["received"]) == ("run-1", 331)
    assert status["lastBatchTime"] == "2026-01-05T08:20:00Z"


def test_a_run_without_a_batch_leaves_the_times_of_the_last_one() -> None:
    times = BatchTimes(read_seconds=1.5, decide_seconds=0.2, set_aside_seconds=0, commit_seconds=2, waited_seconds=9)
    first = stream_status(stream(), NOW, report(INGESTED.model_copy(update={"last_batch": times}))).to_dict()
    assert first["lastBatch"] == times.model_dump(by_alias=True)
    assert stream_status(stream(first), NOW, report(INGESTED)).to_dict()["lastBatch"] == first["lastBatch"]


def test_sequences_that_wait_for_members_are_told_and_stay_told_until_the_store_says_otherwise() -> None:
    waiting = SequenceState(incomplete=2, overdue=1, oldest_time=ENDED, oldest_id="upload-7")
    first = stream_status(stream(), NOW, report(INGESTED.model_copy(update={"sequences": waiting}))).to_dict()
    assert first["sequences"] == {
        "incomplete": 2,
        "overdue": 1,
        "oldestTime": "2026-01-05T08:20:00Z",
        "oldestId": "upload-7",
    }
    failed = stream_status(stream(first), NOW, report(error=BUSY)).to_dict()
    assert failed["sequences"] == first["sequences"]
    assert "sequences" not in stream_status(stream(first), NOW, report(INGESTED)).to_dict()


def test_the_store_is_believed_before_the_report() -> None:
    facts = StoreFacts(TABLE.model_copy(update={"messages": 289}), COUNTS, ENDED - timedelta(minutes=4))
    status = stream_status(stream(), NOW, report(INGESTED), facts)
    assert told(status)[2] == "289 messages stored; last batch 4m12s ago"


def test_a_failed_run_forgets_nothing() -> None:
    before = stream_status(stream(), NOW, report(INGESTED)).to_dict()
    status = stream_status(stream(before), NOW + timedelta(hours=1), report(error=BUSY, run="run-2"))
    assert status.to_dict()["totals"] == before["totals"]
    assert [run.name for run in status.recent_runs] == ["run-2", "run-1"]
    assert status.last_run.error.reason == "TableBusy"


def test_recent_runs_have_a_limit() -> None:
    status = stream_status(stream(), NOW, report(INGESTED)).to_dict()
    for number in range(2, 6):
        status = stream_status(stream(status, runHistoryLimit=3), NOW, report(INGESTED, run=f"run-{number}")).to_dict()
    assert [run["name"] for run in status["recentRuns"]] == ["run-5", "run-4", "run-3"]
    none = stream_status(stream(status, runHistoryLimit=0), NOW, report(INGESTED))
    assert none.recent_runs == ()


def test_a_transition_time_is_of_the_last_transition() -> None:
    later = NOW + timedelta(hours=1)
    first = stream_status(stream(), NOW, report(INGESTED)).to_dict()
    same = stream_status(stream(first), later, report(INGESTED)).to_dict()
    assert same["conditions"][0]["lastTransitionTime"] == first["conditions"][0]["lastTransitionTime"]
    other = stream_status(stream(first), later, report(error=BUSY)).to_dict()
    assert other["conditions"][0]["lastTransitionTime"] == "2026-01-05T09:20:12Z"


def test_times_without_a_form_are_left_out() -> None:
    ancient = TABLE.model_copy(update={"oldest_message_time": datetime(1, 1, 1, tzinfo=UTC)})
    status = stream_status(stream(), NOW, report(INGESTED.model_copy(update={"table": ancient})))
    assert status.table.oldest_message_time is None


def purged(messages: int = 40, held: int = 2, waiting: bool = False, **done: int) -> PurgeOutcome:
    preview = Preview(
        id="8c1f", table_version=1, as_of=NOW, messages=messages, bytes=9, by_rule={"old": messages}, held=held
    )
    purge = Purged(run="run-1", at=NOW, table_version_before=1, table_version_after=3, held=held, **done)
    return PurgeOutcome(preview=preview, purge=None if waiting else purge, awaiting_approval=waiting, table=TABLE)


def previewed() -> PurgeOutcome:
    return purged().model_copy(update={"purge": None})


READY = "True"
NIGHTLY = {"schedule": {"cron": "0 3 * * *"}}
POLICIES: list[tuple[dict[str, Any], list[StreamResult], str, str, str, str]] = [
    ({"trigger": NIGHTLY}, [], "Pending", "False", "Pending", "no run has started yet"),
    ({"suspend": True}, [], "Suspended", READY, "Suspended", "no run starts while spec.suspend is true"),
    (
        {},
        [StreamResult("orders", report(purged(purged=40, archived=40)))],
        "Idle",
        READY,
        "Purged",
        "40 messages removed, 40 archived, 2 held",
    ),
    (
        {},
        [StreamResult("orders", report(purged(messages=0, held=0)))],
        "Idle",
        READY,
        "NothingToRemove",
        "nothing to remove",
    ),
    (
        {"action": "Scrub", "scrub": {"headers": ["a"]}},
        [StreamResult("orders", report(purged(held=0, scrubbed=1)))],
        "Idle",
        READY,
        "Scrubbed",
        "1 message scrubbed",
    ),
    (
        {},
        [StreamResult("orders", report(purged(held=0, dead_letters=2)))],
        "Idle",
        READY,
        "Purged",
        "2 dead letters removed",
    ),
    (
        {"mode": "DryRun"},
        [StreamResult("orders", report(previewed()))],
        "Idle",
        READY,
        "Previewed",
        "40 messages would be removed, 2 held; mode is DryRun",
    ),
    (
        {"approval": "Required"},
        [StreamResult("orders", report(purged(waiting=True)))],
        "AwaitingApproval",
        READY,
        "AwaitingApproval",
        "40 messages would be removed, 2 held; approve with annotation messagestore.dev/approved-preview: 8c1f",
    ),
    (
        {},
        [StreamResult("orders", report(purged(purged=40))), StreamResult("other", error=BUSY)],
        "Failing",
        "False",
        "TableBusy",
        "stream other: another run is writing",
    ),
    (
        {},
        [StreamResult("orders", report(error=REFUSED))],
        "Stalled",
        "False",
        "TableRefused",
        "stream orders: holds something else",
    ),
]


@pytest.mark.parametrize(("spec", "results", "phase", "ready", "reason", "message"), POLICIES)
def test_phase_and_message_of_a_policy_follow_from_the_results_of_its_streams(
    spec: dict[str, Any], results: list[StreamResult], phase: str, ready: str, reason: str, message: str
) -> None:
    found = told(policy_status(policy(**spec), NOW, results))
    assert (found[0], found[1]["Ready"], found[2]) == (phase, (ready, reason), message)
    assert ("Stalled" in found[1]) == (phase == "Stalled")
    assert ("Reconciling" in found[1]) == (phase in ("Pending", "Failing"))


def test_a_policy_that_selects_no_stream_waits_for_one() -> None:
    selects_none = policy(streamRefs=[], streamSelector={"matchLabels": {"team": "sales"}})
    expected = "Idle", {"Ready": ("True", "Waiting")}, "no MessageStream has the labels of spec.streamSelector"
    assert told(policy_status(selects_none, NOW)) == expected


def test_the_status_of_a_policy_has_the_figures_of_its_purges() -> None:
    results = [
        StreamResult("orders", report(purged(purged=40, archived=40))),
        StreamResult("other", report(purged(purged=2, held=1))),
    ]
    status = policy_status(policy(), NOW, results).to_dict()
    assert (status["streamSummary"], status["held"], status["purged"]) == ("2 streams", 3, 42)
    assert status["lastPurgeTime"] == "2026-01-05T08:20:12Z"
    entry = status["streams"][0]
    assert (entry["name"], entry["preview"]["byRule"]) == ("orders", {"old": 40})
    assert entry["lastPurge"]["tableVersionAfter"] == 3


def unsent(since: datetime, **relay: int) -> PurgeOutcome:
    """A purge that leaves messages for a subscription, and takes some from another."""
    found = (
        Unsent(name="relay", waiting=3, waiting_since=since, **relay),
        Unsent(name="audit", global_position=9, missed=2),
    )
    before = purged(purged=4, held=0)
    return before.model_copy(update={"preview": before.preview.model_copy(update={"subscriptions": found})})


def test_a_policy_says_who_waits_and_who_misses_messages() -> None:
    status = policy_status(policy(), NOW, [StreamResult("orders", report(unsent(NOW, global_position=7)))])
    assert told(status)[2] == "4 messages removed, 3 wait for relay, audit misses 2"
    relay, audit = status.to_dict()["streams"][0]["preview"]["subscriptions"]
    assert (relay["name"], relay["globalPosition"], relay["waiting"]) == ("relay", 7, 3)
    assert (relay["waitingSince"], audit["missed"]) == ("2026-01-05T08:20:12Z", 2)


def test_a_wait_for_a_consumer_names_it() -> None:
    waiting = unsent(NOW - timedelta(days=8))
    renamed = waiting.preview.subscriptions[0].model_copy(update={"name": "consumer:billing"})
    preview = waiting.preview.model_copy(update={"subscriptions": (renamed,)})
    outcome = waiting.model_copy(update={"preview": preview})
    status = policy_status(policy(), NOW, [StreamResult("orders", report(outcome))])
    (blocked,) = [condition for condition in status.conditions if condition.type == "RetentionBlocked"]
    assert blocked.message.startswith("stream orders: 3 messages wait for consumer billing, the first")


@pytest.mark.parametrize(
    ("days", "relay", "words"),
    [
        (6, {"global_position": 7}, None),
        (7, {"global_position": 7}, "its cursor is at 7"),
        (8, {}, "it has no cursor in the stream's store"),
    ],
)
def test_a_wait_of_a_week_is_a_condition(days: int, relay: dict[str, int], words: str | None) -> None:
    since = NOW - timedelta(days=days)
    status = policy_status(policy(), NOW, [StreamResult("orders", report(unsent(since, **relay)))])
    blocked = [condition for condition in status.conditions if condition.type == "RetentionBlocked"]
    assert [condition.message for condition in blocked] == (
        [
            f"stream orders: 3 messages wait for ReplayJob relay, the first since {since:%Y-%m-%dT%H:%M:%SZ}; {words}",
        ]
        if words
        else []
    )
    ready = condition_of(status, "Ready")
    assert ready.status == "True"


def test_a_policy_keeps_its_last_purge() -> None:
    before = policy_status(policy(), NOW, [StreamResult("orders", report(purged(purged=40)))])
    known = policy().model_copy(update={"status": before})
    after = policy_status(known, NOW, [StreamResult("orders", report(error=BUSY))])
    assert after.streams[0].last_purge == before.streams[0].last_purge
    assert after.streams[0].error is not None


def test_a_policy_tells_of_the_erasure_after_its_purge() -> None:
    done = report(EraseOutcome(erased=1, erased_at=ENDED, not_erased=("archives",), table=TABLE), run="run-2")
    found = policy_status(policy(), NOW, [StreamResult("orders", report(purged(purged=1)), erasure=done)]).streams[0]
    assert (found.last_purge.run, found.last_purge.erased_at) == ("run-1", "2026-01-05T08:20:00Z")
    assert found.last_purge.possible_copies == ("archives",)
    assert (found.last_run.name, found.last_run.kind) == ("run-2", "erase")

    failed = report(error=BUSY, run="run-2")
    status = policy_status(policy(), NOW, [StreamResult("orders", report(purged(purged=1)), erasure=failed)])
    assert told(status)[:2] == ("Failing", {"Ready": ("False", "TableBusy"), "Reconciling": ("True", "TableBusy")})
    assert status.streams[0].last_purge.erased_at is None


def replayed(complete: bool = True, failed: int = 0, erased: int = 0) -> ReplayOutcome:
    selection = FrozenSelection(table_version=1, messages=13, bytes=90321, first_global_position=4)
    sent = {"replayed": 13 - failed - erased, "failed": failed, "erased": erased}
    progress = ReplayProgress(**sent, percent=100, messages_per_second=410.0)
    return ReplayOutcome(selection=selection, progress=progress, complete=complete)


DONE = {"Ready": ("True", "Replayed"), "Complete": ("True", "Replayed")}
FAILED = {
    name: (status, "TableRefused") for name, status in (("Ready", "False"), ("Stalled", "True"), ("Failed", "True"))
}
TRIED = {"Ready": ("False", "TableBusy"), "Reconciling": ("True", "TableBusy")}
EACH_MINUTE = {"trigger": {"interval": "PT1M"}, "select": {"dueForRetry": True}}
JOBS: list[tuple[dict[str, Any], dict[str, Any], str, dict[str, tuple[str, str]], str]] = [
    ({}, {}, "Pending", WAITS, "no run has started yet"),
    ({"suspend": True}, {}, "Paused", {"Ready": ("True", "Suspended")}, "nothing is sent"),
    ({}, {"report": report(replayed())}, "Succeeded", DONE, "13 messages replayed to files/checks"),
    (
        {},
        {"report": report(replayed(erased=2))},
        "Succeeded",
        DONE,
        "11 messages replayed to files/checks, 2 erased since they were selected",
    ),
    (
        {},
        {"report": report(replayed(failed=1))},
        "Succeeded",
        dict.fromkeys(("Ready", "Complete", "Degraded"), ("True", "MessagesBroken")),
        "12 messages replayed to files/checks, 1 not sent",
    ),
    (
        {"suspend": True},
        {"report": report(replayed(complete=False))},
        "Paused",
        {"Ready": ("True", "Suspended")},
        "nothing is sent",
    ),
    ({}, {"report": report(error=REFUSED)}, "Failed", FAILED, "holds something else"),
    (EACH_MINUTE, {"report": report(error=BUSY)}, "Failing", TRIED, "another run is writing"),
    ({}, {"error": BUSY}, "Pending", TRIED, "another run is writing"),
    (
        {"mode": "DryRun", "origin": "DeadLetters"},
        {"report": report(replayed())},
        "Succeeded",
        {"Ready": ("True", "Previewed"), "Complete": ("True", "Previewed")},
        "13 dead letters would be replayed",
    ),
    (
        {"mode": "DryRun"},
        {"report": report(replayed().model_copy(update={"findings": ("topic orders is compacted", "others")}))},
        "Succeeded",
        {"Ready": ("True", "Previewed"), "Complete": ("True", "Previewed")},
        "13 messages would be replayed; mode is DryRun; 2 findings in status.findings, the first: topic orders is",
    ),
]


@pytest.mark.parametrize(("spec", "given", "phase", "conditions", "message"), JOBS)
def test_phase_conditions_and_message_of_a_replay_follow_from_its_spec_and_runs(
    spec: dict[str, Any], given: dict[str, Any], phase: str, conditions: dict[str, tuple[str, str]], message: str
) -> None:
    status = replay_status(job(**spec), NOW, **given)
    found = told(status)
    assert found[:2] == (phase, conditions)
    assert found[2].startswith(message)
    assert (status.finished_at is not None) == (phase in ("Succeeded", "Failed"))


@pytest.mark.parametrize(
    ("destination", "expected"),
    [
        ({"files": {"uri": "s3a://replay/checks/"}}, "files/checks"),
        ({"stream": {"name": "other"}}, "stream/other"),
        ({"kafka": {"bootstrapServers": "kafka:9092", "topic": "checks"}}, "kafka/checks"),
    ],
)
def test_a_destination_has_a_short_form_for_its_column(destination: dict[str, Any], expected: str) -> None:
    assert replay_status(job(destination=destination), NOW).destination == expected


def test_findings_are_no_longer_than_a_status_takes() -> None:
    outcome = replayed().model_copy(update={"findings": ("x" * 5000,) * 50})
    found = replay_status(job(mode="DryRun"), NOW, report=report(outcome)).findings
    assert (len(found), {len(one) for one in found}) == (20, {1024})


def test_the_status_of_a_replay_has_the_figures_of_its_report() -> None:
    status = replay_status(job(), NOW, report(replayed())).to_dict()
    assert status["selection"]["messages"] == 13
    assert status["progress"]["replayed"] == 13
    assert (status["startedAt"], status["finishedAt"]) == ("2026-01-05T08:20:00Z",) * 2
    assert status["attempts"] == 1


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        (IngestCounts(), "nothing new has arrived"),
        (IngestCounts(received=1, stored=1), "1 record received: 1 stored"),
        (COUNTS, "331 records received: 329 stored, 1 duplicate, 1 dead letter"),
        (IngestCounts(received=3, filtered=2, discarded=1), "3 records received: 2 filtered, 1 discarded"),
    ],
)
def test_the_counts_of_an_ingest_are_told_in_a_sentence(counts: IngestCounts, expected: str) -> None:
    assert received(counts) == expected


def test_reasons_are_constants_by_kubernetes_convention() -> None:
    assert all(reason.value.isalpha() and reason.value[0].isupper() for reason in (*Reason, *Failure))


def test_reasons_that_jobs_give_are_listed() -> None:
    import re
    from pathlib import Path

    import messagestore_jobs

    sources = "".join(path.read_text() for path in Path(messagestore_jobs.__file__).parent.rglob("*.py"))
    given = set(re.findall(r'(?:RunFailedError|super\(\).__init__)\(\s*"([A-Za-z]+)"', sources))
    assert given
    assert given <= set(Failure)


LOOKED = "2026-01-05T08:20:00Z"
UNKNOWN = {"asOf": LOOKED, "summary": "unknown", "sourceFound": True}
SINCE = f"; what has arrived since {LOOKED} is unknown"
STORAGE_DENIED = RunError(reason="StorageDenied", message="the keys are refused")
LAG = Lag(as_of=ENDED, source_found=True)


def looked_at(lag: Lag = LAG, counts: IngestCounts = COUNTS) -> IngestOutcome:
    return IngestOutcome(
        counts=counts, totals=counts, batches=1, table=TABLE, lag=lag, lifecycle=LifecycleOutcome(lag=lag)
    )


def idle(**spec: Any) -> MessageStream:
    """A stream with one run, which has read all."""
    made = stream(**spec)
    return made.model_copy(update={"status": stream_status(made, ENDED, report(looked_at()))})


def seen(made: MessageStream, outlook: Outlook, **changes: Any) -> MessageStreamStatus:
    before = made.status
    return with_view(made, before, before.model_copy(update=changes), outlook, NOW)


def after_a_failure(made: MessageStream) -> dict[str, Any]:
    """The fields of a status after a run that failed."""
    changes = {"state": "Failed", "generation": 3, "error": api_error(STORAGE_DENIED)}
    return {"last_run": made.status.last_run.model_copy(update=changes)}


def test_after_a_failed_run_the_lag_is_unknown_since_the_last_listing() -> None:
    made = idle()
    found = seen(made, Outlook(next_run=NOW + timedelta(minutes=1)), **after_a_failure(made)).to_dict()
    assert found["lag"] == UNKNOWN
    assert found["lifecycle"]["lagSummary"] == "unknown"
    assert {one["reason"] for one in found["conditions"]} == {"StorageDenied"}
    assert all(one["message"].endswith(SINCE) for one in found["conditions"])


def test_the_lag_stays_unknown_during_a_retry_until_that_has_committed() -> None:
    made = idle()
    trying = {
        **after_a_failure(made),
        "current_run": CurrentRun(name="r", state="Running", launched_at=clock_time(NOW)),
    }
    unknown = made.model_copy(update={"status": seen(made, Outlook(), **trying)})
    assert seen(unknown, Outlook(), **trying).to_dict()["lag"] == UNKNOWN
    known = seen(made, Outlook(progressing=True), **trying).to_dict()
    assert known["lag"] == {"asOf": LOOKED, "files": 0, "summary": "0 files", "sourceFound": True}


@pytest.mark.parametrize(
    ("spec", "outlook", "ready"),
    [
        ({}, Outlook(STORAGE_DENIED), ("False", "StorageDenied")),
        ({"suspend": True}, Outlook(), ("True", "Suspended")),
        ({}, Outlook(paused="everything is paused"), ("True", "Paused")),
    ],
)
def test_while_no_run_may_start_the_lag_is_unknown(spec: Any, outlook: Outlook, ready: tuple[str, str]) -> None:
    found = seen(idle(**spec), outlook).to_dict()
    (condition,) = [one for one in found["conditions"] if one["type"] == "Ready"]
    assert found["lag"] == UNKNOWN
    assert (condition["status"], condition["reason"]) == ready
    assert condition["message"].endswith(SINCE)


def test_a_run_that_goes_on_while_the_spec_is_refused_still_tells_the_lag() -> None:
    made = idle()
    running = {"current_run": CurrentRun(name="r", state="Running", launched_at=clock_time(NOW))}
    found = seen(made, Outlook(STORAGE_DENIED, progressing=True), **running).to_dict()
    assert found["lag"] == {"asOf": LOOKED, "files": 0, "summary": "0 files", "sourceFound": True}
    assert {one["message"] for one in found["conditions"]} == {STORAGE_DENIED.message}


def test_between_two_successful_runs_the_lag_is_that_of_the_last_listing() -> None:
    found = seen(idle(), Outlook(next_run=NOW + timedelta(minutes=1))).to_dict()
    assert found["lag"] == {"asOf": LOOKED, "files": 0, "summary": "0 files", "sourceFound": True}


def test_a_topic_has_a_lag_in_records_alone() -> None:
    found = stream_status(stream(), NOW, report(looked_at(Lag(as_of=ENDED, records=7)))).to_dict()
    assert found["lag"] == {"asOf": LOOKED, "records": 7, "summary": "7 records"}


def test_a_folder_in_which_no_file_was_ever_seen_is_ready_with_a_reason_of_its_own() -> None:
    found = stream_status(stream(), NOW, report(looked(source_found=False))).to_dict()
    assert [(one["type"], one["status"], one["reason"], one["message"]) for one in found["conditions"]] == [
        (
            "Ready",
            "True",
            "SourceNotFound",
            "s3a://landing/orders/ doesn't exist or is empty: no file has arrived yet",
        )
    ]


@pytest.mark.parametrize("known", [True, None])
def test_a_folder_that_is_empty_again_and_a_report_of_an_earlier_release_are_ingesting(known: bool | None) -> None:
    found = stream_status(stream(), NOW, report(looked(source_found=known))).to_dict()
    assert [one["reason"] for one in found["conditions"]] == ["Ingesting"]


def looked(source_found: bool | None) -> IngestOutcome:
    return looked_at(Lag(as_of=ENDED, source_found=source_found), IngestCounts())


def test_a_failing_stream_of_which_nothing_was_ever_seen_says_no_more_than_why() -> None:
    found = stream_status(stream(), NOW, error=STORAGE_DENIED).to_dict()
    assert "lag" not in found
    assert [one["message"] for one in found["conditions"]] == [STORAGE_DENIED.message] * 2
