"""The cache of the watches: the newest version of each object, and which resources to reconcile."""

import json
import re
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.kubeflow import application
from messagestore_operator.cluster.labels import UID, run_ref
from messagestore_operator.cluster.observe import app_state
from messagestore_operator.cluster.reports import Reports
from messagestore_operator.decide.snapshot import AppState, TableKey
from messagestore_operator.kube.objects import at
from messagestore_operator.translate.names import numbered_run_name
from support.launches import UID as UID_OF_ORDERS
from support.launches import launch, stream

TABLE = TableKey("default", "https://objects.example.org", "s3a://lake/orders")
NAME = numbered_run_name(stream(), "ingest", 1)
DRIVER = f"{NAME}-driver"
RUN = ("default", NAME)
APPLICATION = "SparkApplication"
ORDERS = ("MessageStream", "default", "orders")
REPLAY = ("ReplayJob", "default", "again")
POLICY = ("RetentionPolicy", "default", "old")


@pytest.fixture
def cache() -> Cache:
    return Cache()


def _stream(name: str = "orders", version: int = 1, uid: str = UID_OF_ORDERS, **metadata: Any) -> dict[str, Any]:
    """A stream with a run."""
    document = stream(name).to_dict()
    document["metadata"] |= {"uid": uid, "resourceVersion": str(version), **metadata}
    return {**document, "status": {"runNumber": 1}}


def _policy(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "RetentionPolicy",
        "metadata": {"name": "old", "namespace": "default", "uid": "p1", "resourceVersion": "1"},
        "spec": {"trigger": {"manual": {}}, "rules": [{"name": "old", "maxAge": "P1D"}], **spec},
    }


def _replay(version: int = 1, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "ReplayJob",
        "metadata": {"name": "again", "namespace": "default", "uid": "r1", "resourceVersion": str(version)},
        "spec": {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": "s3a://replay/again/"}}},
        "status": status,
    }


def _application(version: int = 1, uid: str = "a1", state: str = "RUNNING") -> dict[str, Any]:
    found = application(launch(name=NAME))
    found["metadata"] |= {"uid": uid, "resourceVersion": str(version)}
    return {**found, "status": {"applicationState": {"state": state}}}


def _config_map(owner: str) -> dict[str, Any]:
    found = {**_application(uid="c1"), "kind": "ConfigMap"}
    found["metadata"]["ownerReferences"] = [{"kind": owner, "uid": "a1" if owner == APPLICATION else UID_OF_ORDERS}]
    return found


def _pod(name: str, role: str, version: int = 1, **status: Any) -> dict[str, Any]:
    labels = {**application(launch(name=NAME))["metadata"]["labels"], "spark-role": role}
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    owners = [{"kind": APPLICATION, "uid": "a1"}]
    return {"kind": "Pod", "metadata": {**meta, "labels": labels, "ownerReferences": owners}, "status": status}


def _lease(holder: str | None, version: int = 1) -> dict[str, Any]:
    annotations = {"messagestore.dev/table": str(TABLE)}
    meta = {"name": "messagestore-1", "namespace": "op", "uid": "l1", "resourceVersion": str(version)}
    return {"kind": "Lease", "metadata": {**meta, "annotations": annotations}, "spec": {"holderIdentity": holder}}


def test_an_older_version_of_an_object_is_passed_over(cache: Cache) -> None:
    cache.put(_stream(version=5, labels={"now": "newer"}))
    assert cache.put(_stream(version=4, labels={"now": "older"})) == set()
    assert cache.resource(ORDERS).metadata.labels == {"now": "newer"}


def test_a_late_answer_does_not_bring_back_what_was_deleted(cache: Cache) -> None:
    cache.put(_stream(version=5))
    cache.remove(_stream(version=6))
    cache.put(_stream(version=5))
    assert cache.resource(ORDERS) is None


def test_a_resource_made_again_is_another_one_however_late_the_news_of_the_first_ones_end(cache: Cache) -> None:
    cache.put(_stream(version=5, uid="first"))
    cache.put(_stream(version=9, uid="second"))
    cache.remove(_stream(version=8, uid="first"))
    assert cache.resource(ORDERS).metadata.uid == "second"


def test_of_two_that_had_one_name_the_second_is_known_however_the_news_of_both_are_mixed() -> None:
    news = [(happened, uid, version) for version, (happened, uid) in enumerate(zip("AMDAM", "11122", strict=True))]
    assert [order for order in permutations(news) if not _ends_with_the_second(order)] == []


def _ends_with_the_second(order: Sequence[tuple[str, str, int]]) -> bool:
    cache = Cache()
    for happened, uid, version in order:
        seen = _stream(version=version, uid=uid)
        seen["spec"]["table"]["uri"] = f"s3a://lake/{uid}"
        (cache.remove if happened == "D" else cache.put)(seen)
    found = cache.resource(ORDERS)
    first, second = (cache.interested(TableKey("default", TABLE.endpoint, f"s3a://lake/{uid}")) for uid in "12")
    return found is not None and (found.metadata.uid, first, second) == ("2", set(), {ORDERS})


def test_a_run_is_found_by_the_uid_of_its_resource_until_nothing_is_left_of_it(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_application())
    cache.put(_pod(DRIVER, "driver", phase="Running"))
    assert cache.runs_of(stream()) == [RUN]
    cache.remove(_application(version=2))
    assert cache.runs_of(stream()) == [RUN]
    cache.remove(_pod(DRIVER, "driver", version=2))
    assert cache.runs_of(stream()) == []


def test_an_object_of_another_namespace_is_no_run_of_a_resource(cache: Cache) -> None:
    forged = _pod(DRIVER, "driver", phase="Succeeded")
    forged["metadata"]["namespace"] = "another"
    cache.put(_stream())
    cache.put(forged)
    assert cache.runs_of(stream()) == []


def test_a_change_of_a_run_affects_its_resource(cache: Cache) -> None:
    cache.put(_stream())
    assert cache.put(_application()) == {ORDERS}
    assert cache.put(_application(version=2, state="COMPLETED")) == {ORDERS}


def test_why_an_executor_was_lost_is_remembered_after_its_pod_is_gone(cache: Cache) -> None:
    cache.put(_stream())
    terminated = {"state": {"terminated": {"reason": "OOMKilled"}}}
    cache.put(_application())
    cache.put(_pod("exec-1", "executor", phase="Failed", containerStatuses=[terminated]))
    cache.remove(_pod("exec-1", "executor", version=2))
    assert cache.run(RUN).lost_executors == {"exec-1": "OOMKilled"}


def test_a_freed_table_affects_all_that_may_write_to_it(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_policy(streamRefs=[{"name": "orders"}]))
    cache.put(_lease(f"default/{NAME}"))
    assert cache.put(_lease(None, version=2)) == {ORDERS, POLICY}


def test_the_end_of_a_run_affects_those_that_wait_for_its_table(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_policy(streamRefs=[{"name": "orders"}]))
    cache.put(_lease(f"default/{NAME}"))
    assert cache.put(_application(state="COMPLETED")) == {ORDERS, POLICY}


def test_a_policy_is_told_of_a_stream_that_comes_to_have_the_labels_it_selects_or_loses_them(cache: Cache) -> None:
    cache.put(_policy(streamSelector={"matchLabels": {"keep": "short"}}))
    assert cache.put(_stream()) == {ORDERS}
    assert cache.put(_stream(version=2, labels={"keep": "short"})) == {ORDERS, POLICY}
    assert cache.put(_stream(version=3)) == {ORDERS, POLICY}


def test_resources_whose_folders_overlap_are_told_of_each_other_until_they_do_no_more(cache: Cache) -> None:
    cache.put(_stream())
    policy = {**_policy(streamRefs=[{"name": "other"}]), "status": {}}
    policy["spec"]["archive"] = {"uri": "s3://landing/orders/old/"}
    assert ORDERS in cache.put(policy)
    stream, other = cache.resource(ORDERS), cache.resource(POLICY)
    assert stream is not None
    assert other is not None
    assert (cache.overlapping(stream), cache.overlapping(other)) == ((other,), (stream,))
    moved = _stream(version=2, generation=2)
    moved["spec"]["source"]["files"]["uri"] = "s3a://landing/orders-2"
    assert POLICY in cache.put(moved)
    found = cache.resource(ORDERS)
    assert found is not None
    assert (cache.overlapping(found), cache.overlapping(other)) == ((), ())


def test_a_policy_is_not_told_of_each_status_of_its_stream(cache: Cache) -> None:
    cache.put(_policy(streamRefs=[{"name": "orders"}]))
    cache.put(_stream())
    assert cache.put({**_stream(version=2), "status": {"phase": "Idle"}}) == {ORDERS}


def test_a_stream_is_told_of_a_replay_of_it_that_comes_runs_ends_and_goes(cache: Cache) -> None:
    run = {"name": "again-replay-1", "state": "Pending", "launchedAt": "2026-03-01T06:30:00Z"}
    cache.put(_stream())
    assert cache.put(_replay()) == {ORDERS, REPLAY}
    assert cache.put(_replay(version=2, currentRun=run)) == {ORDERS, REPLAY}
    assert cache.put(_replay(version=3, phase="Succeeded")) == {ORDERS, REPLAY}
    assert cache.remove(_replay(version=4)) == {ORDERS, REPLAY}


def test_an_object_that_a_list_lacks_is_dropped_unless_it_came_after_the_list(cache: Cache) -> None:
    cache.put(_stream("orders"))
    before = cache.versions()
    cache.put(_stream("meanwhile", uid="u2"))
    touched = cache.forget_others("MessageStream", [], before)
    assert cache.resource(ORDERS) is None
    assert cache.resource(("MessageStream", "default", "meanwhile")) is not None
    assert touched == {ORDERS}


def test_an_application_that_a_list_does_not_show_is_dropped_from_its_run(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_application())
    assert cache.forget_others("SparkApplication", [], cache.versions()) == {ORDERS}
    assert cache.run(RUN).empty


def test_of_config_maps_only_what_is_looked_at_is_kept(cache: Cache) -> None:
    cache.put(_stream())
    config_map = {**_config_map(APPLICATION), "data": {"run.json": "{}", "control.json": "{}"}}
    cache.put(config_map)
    kept = cache.run(RUN).config_map
    assert kept["data"] == {"control.json": "{}"}


def test_a_config_map_keeps_its_texts_while_a_watch_shows_only_metadata_and_says_that_there_may_be_others(
    cache: Cache,
) -> None:
    cache.put(_stream())
    shown, newer = (_versioned(_config_map(APPLICATION), version) for version in (1, 2))
    read, reread = ({**one, "data": {"report.json": text}} for one, text in ((shown, "first"), (newer, "second")))
    seen = []
    for document in (shown, read, newer, reread):
        cache.put(document)
        seen.append((at(cache.run(RUN).config_map, "data", "report.json"), cache.is_unread(RUN)))
    assert seen == [(None, True), ("first", False), ("first", True), ("second", False)]


def test_texts_of_an_older_version_of_a_config_map_or_of_one_of_another_uid_are_passed_over(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_versioned(_config_map(APPLICATION), 2))
    other = _versioned(_config_map(APPLICATION), 2)
    other["metadata"]["uid"] = "c2"
    for late in (_versioned(_config_map(APPLICATION), 1), other):
        cache.put({**late, "data": {"report.json": "late"}})
        assert at(cache.run(RUN).config_map, "data", "report.json") is None


def _versioned(document: dict[str, Any], version: int) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "resourceVersion": str(version)}}


def test_little_is_kept_of_an_object_of_a_run_however_large_somebody_makes_it(cache: Cache) -> None:
    cache.put(_stream())
    large = _config_map(APPLICATION)
    large["metadata"] |= {"annotations": {"note": "x" * 200_000, **large["metadata"]["annotations"]}}
    large["data"] = {"report.json": "x" * 400_000, "control.json": "x" * 300_000, "more": "x" * 100_000}
    cache.put(large)
    assert 64 << 10 < len(json.dumps(cache.run(RUN).config_map)) < 160_000
    assert "is longer than" in str(Reports().of(cache.run(RUN).config_map, NAME).problem)


def test_little_is_kept_of_an_application_however_large_somebody_makes_it(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_application())
    large = _application(version=2, state="FAILED")
    notes = {f"messagestore.dev/n{number}": "x" * 50 for number in range(5000)}
    large["metadata"]["labels"] |= notes
    large["metadata"]["annotations"] |= {"messagestore.dev/attempt": "1" * 200_000}
    large["metadata"]["ownerReferences"] += [{"kind": "ConfigMap", "name": "x" * 200, "uid": "u"}] * 5000
    large["status"]["applicationState"]["errorMessage"] = "x" * 500_000
    large["status"] |= {"executionAttempts": 1, "executorState": {f"executor-{n}": "COMPLETED" for n in range(5000)}}
    assert cache.put(large) == {ORDERS}
    application = cache.run(RUN).application
    assert application is not None
    assert len(json.dumps(application)) < 7000
    assert app_state(application) is AppState.FAILED
    assert run_ref(application, NAME) is not None


def test_a_resource_that_can_not_be_read_is_passed_over(cache: Cache) -> None:
    broken = _stream()
    broken["spec"] = {"nonsense": True}
    assert cache.put(broken) == set()
    assert cache.resource(ORDERS) is None


def test_of_a_spec_that_only_the_models_refuse_the_rest_is_known_and_what_is_wrong(cache: Cache) -> None:
    cache.put(_stream(version=1, generation=1))
    refused = _stream(version=2, generation=2)
    refused["spec"] |= {"trigger": {"schedule": {"cron": "0 25 * * *", "timeZone": "Europe/Viena"}}, "suspend": True}
    assert cache.put(refused) == {ORDERS}
    # A new status of the same generation does not make it valid.
    cache.put({**refused, "metadata": {**refused["metadata"], "resourceVersion": "3"}, "status": {"runNumber": 7}})
    found = cache.resource(ORDERS)
    assert (found.metadata.resource_version, found.spec.suspend, found.status and found.status.run_number) == (
        "3",
        True,
        7,
    )
    assert cache.interested(TABLE) == {ORDERS}
    assert cache.problem(ORDERS) == (
        'spec.trigger.schedule.cron: must be a cron expression of five fields, such as "0 3 * * *", with nothing at'
        " random (R, H); 25 is no hour, of which there are 0 to 23; spec.trigger.schedule.timeZone: must be the name of"
        " a time zone, such as UTC or Europe/Vienna; there is none of this name"
    )
    cache.put(_stream(version=4, generation=3))
    assert cache.problem(ORDERS) is None


def test_of_a_list_the_items_that_are_refused_are_left_out(cache: Cache) -> None:
    days = {"first": "2026-02-28", "second": "2026-02-30", "third": "2026-02-31", "fourth": "2026-03-01"}
    stream = _stream()
    stream["spec"]["holds"] = [
        {"name": name, "match": {"categories": ["a"]}, "until": f"{day}T00:00:00Z"} for name, day in days.items()
    ]
    assert cache.put(stream) == {ORDERS}
    found = cache.resource(ORDERS)
    assert [hold.name for hold in found.spec.holds] == ["first", "fourth"]
    assert cache.problem(ORDERS) == (
        "spec.holds[1].until: must be a day that exists; spec.holds[2].until: must be a day that exists"
    )


def _many(count: int) -> list[dict[str, Any]]:
    """Holds of 1000 characters each."""
    return [{"name": f"hold-{number}", "match": {"categories": ["x" * 1000]}} for number in range(count)]


@pytest.mark.parametrize(
    ("metadata", "spec", "said"),
    [
        ({}, {"holds": _many(300)}, r"spec.holds: the spec has 3\d{5} characters, and the operator reads 262144"),
        ({"labels": {f"a{number}": "x" * 60 for number in range(5000)}}, {}, r"metadata: labels and annotations have"),
        ({"annotations": {"messagestore.dev/run-requested": "x" * 300_000}}, {}, r"metadata: labels and annotations"),
    ],
)
def test_a_resource_that_is_too_large_says_so_and_is_not_kept_whole(
    cache: Cache, metadata: dict[str, Any], spec: dict[str, Any], said: str
) -> None:
    for version in (1, 2):
        large = _stream(version=version, generation=1, **metadata)
        large["spec"] |= spec
        assert cache.put(large) == {ORDERS}
        assert re.search(said, str(cache.problem(ORDERS)))
        assert len(cache.resource(ORDERS).model_dump_json()) < 5000
    cache.put(_stream(version=3, generation=1))
    assert cache.problem(ORDERS) is None


def test_a_resource_of_endless_finalizers_is_passed_over(cache: Cache) -> None:
    assert cache.put(_stream(finalizers=[f"example.org/{number}" for number in range(101)])) == set()


def test_of_annotations_only_the_projects_own_are_kept(cache: Cache) -> None:
    own = {"messagestore.dev/run-requested": "now"}
    cache.put(_stream(annotations={**own, "kubectl.kubernetes.io/last-applied-configuration": "x" * 200_000}))
    assert (cache.resource(ORDERS).metadata.annotations, cache.problem(ORDERS)) == (own, None)


def test_a_field_of_a_newer_release_is_named_and_the_rest_is_known(cache: Cache) -> None:
    newer = _stream()
    newer["spec"]["table"]["compression"] = "zstd"
    assert cache.put(newer) == {ORDERS}
    assert cache.problem(ORDERS) == "spec.table.compression: unknown field"
    assert cache.interested(TABLE) == {ORDERS}


def test_a_spec_of_which_too_little_can_be_read_is_known_as_it_was_before_and_no_older(cache: Cache) -> None:
    cache.put(_stream(version=1, generation=1))
    cache.put({**_stream(version=2, generation=2, labels={"now": "newer"}), "spec": {"nonsense": True}})
    found = cache.resource(ORDERS)
    assert (found.metadata.resource_version, found.metadata.labels) == ("2", {"now": "newer"})
    assert "spec.nonsense: unknown field" in str(cache.problem(ORDERS))
    assert cache.interested(TABLE) == {ORDERS}


def test_values_that_the_objects_of_a_run_share_are_held_once(cache: Cache) -> None:
    cache.put(_stream())
    for seen in (_application(), _pod(DRIVER, "driver", phase="Running")):
        cache.put(json.loads(json.dumps(seen)))
    run = cache.run(RUN)
    assert run.application is not None
    assert run.driver is not None
    labels = [one["metadata"]["labels"] for one in (run.application, run.driver)]
    assert labels[0][UID] == stream().metadata.uid
    assert labels[0][UID] is labels[1][UID]
    assert next(key for key in labels[0] if key == UID) is next(key for key in labels[1] if key == UID)


def test_a_trimmed_run_keeps_its_identity_and_its_end(cache: Cache) -> None:
    cache.put(_stream())
    terminated = {"name": "spark-kubernetes-driver", "state": {"terminated": {"message": "x" * 4000}}}
    config_map = {**_config_map(owner=APPLICATION), "data": {"report.json": "y" * 1000}}
    for seen in (
        config_map,
        _application(state="COMPLETED"),
        _pod(DRIVER, "driver", phase="Succeeded", containerStatuses=[terminated]),
        _pod("exec-1", "executor", phase="Failed", containerStatuses=[terminated]),
    ):
        cache.put(json.loads(json.dumps(seen)))
    cache.trim(RUN)

    run = cache.run(RUN)
    assert "xxx" not in str(run)
    assert "yyy" not in str(run)
    assert run.driver["status"] == {"phase": "Succeeded"}
    assert app_state(run.application) is AppState.SUCCEEDED
    assert run_ref(run.application or {}, NAME) == launch(name=NAME).run.run


def _ended_run(owner: str = APPLICATION, state: str = "COMPLETED", phase: str = "Succeeded") -> list[Any]:
    """Application, ConfigMap and pod; the ConfigMap and the pod have long reports."""
    words = {"name": "spark-kubernetes-driver", "state": {"terminated": {"message": "x" * 1000}}}
    return [
        _application(state=state),
        {**_config_map(owner), "data": {"report.json": "x" * 1000}},
        _pod(DRIVER, "driver", phase=phase, containerStatuses=[words]),
    ]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_little_is_kept_of_a_run_that_was_over_when_it_was_found(cache: Cache, order: tuple[int, ...]) -> None:
    cache.put({**_stream(uid=UID_OF_ORDERS), "status": {"runNumber": 1}})
    for place in order:
        cache.put(_ended_run()[place])
    run = cache.run(RUN)
    assert (run.trimmed, "xxx" in str(run)) == (True, False)
    assert app_state(run.application) is AppState.SUCCEEDED
    assert cache.runs_of(stream()) == [RUN]


@pytest.mark.parametrize(
    ("found", "current"),
    [
        (_ended_run(), 1),
        (_ended_run(phase="Running"), 2),
        (_ended_run(state="RUNNING"), 2),
        (_ended_run()[::2], 2),
        (_ended_run(), 0),
    ],
    ids=[
        "current",
        "driver-runs",
        "goes-on",
        "config-map-not-seen",
        "status-is-old",
    ],
)
def test_all_is_kept_of_a_run_that_may_not_be_over_for_its_resource(
    cache: Cache, found: list[Any], current: int
) -> None:
    run = {"kind": "ingest", "generation": 1, "requestedAt": "2026-03-01T06:30:00Z"}
    name = numbered_run_name(stream(), "ingest", current)
    cache.put({**_stream(), "status": {"currentRun": {**run, "name": name, "number": current}, "runNumber": current}})
    cache.put(_lease(f"default/{NAME}"))
    for seen in found:
        cache.put(seen)
    assert (cache.run(RUN).trimmed, "xxx" in str(cache.run(RUN))) == (False, True)


def test_changes_of_a_trimmed_run_affect_its_resource_as_those_of_any_other(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_application(state="COMPLETED"))
    cache.put(_pod("exec-1", "executor", phase="Succeeded"))
    cache.trim(RUN)
    assert cache.put(_application(version=2, state="SUBMISSION_FAILED")) == {ORDERS}
    assert app_state(cache.run(RUN).application) is AppState.SUBMISSION_FAILED
    cache.trim(RUN)
    before = cache.versions()
    assert cache.forget_others("Pod", [], before) == {ORDERS}
    assert cache.remove(_application(version=3)) == {ORDERS}
    assert cache.run(RUN).empty


def test_a_spec_is_read_once_for_each_of_its_generations(cache: Cache) -> None:
    cache.put(_stream(version=1, generation=1))
    first = cache.resource(ORDERS)
    cache.put({**_stream(version=2, generation=1, labels={"keep": "short"}), "status": {"phase": "Idle"}})
    second = cache.resource(ORDERS)
    changed = _stream(version=3, generation=2)
    changed["spec"]["trigger"] = {"interval": "PT7M"}
    cache.put(changed)
    third = cache.resource(ORDERS)
    assert second.spec is first.spec
    assert (second.metadata.labels, second.status is None) == ({"keep": "short"}, False)
    assert str(third.spec.trigger.interval) == "PT7M"


def test_a_resource_whose_status_a_newer_operator_wrote_is_served(cache: Cache) -> None:
    assert cache.put({**_stream(), "status": {"phase": "Archiving", "runNumber": 7}}) == {ORDERS}


def test_a_policy_that_comes_to_name_another_stream_is_told_of_that_one_only(cache: Cache) -> None:
    cache.put(_policy(streamRefs=[{"name": "orders"}]))
    newer = _policy(streamRefs=[{"name": "payments"}])
    newer["metadata"]["resourceVersion"] = "2"
    cache.put(newer)
    assert cache.put(_stream()) == {ORDERS}
    assert cache.put(_stream("payments", uid="u2")) == {("MessageStream", "default", "payments"), POLICY}


def _named(document: dict[str, Any], name: str) -> dict[str, Any]:
    return {**document, "metadata": {**document["metadata"], "name": name}}


def _labelled(document: dict[str, Any], **labels: str) -> dict[str, Any]:
    named = {f"messagestore.dev/{name}": value for name, value in labels.items()}
    found = document["metadata"]
    return {**document, "metadata": {**found, "labels": {**found["labels"], **named}}}


def _owned(document: dict[str, Any], uid: str) -> dict[str, Any]:
    owners = [{"kind": APPLICATION, "uid": uid}]
    return {**document, "metadata": {**document["metadata"], "ownerReferences": owners}}


NOT_YET = numbered_run_name(stream(), "ingest", 2)


@pytest.mark.parametrize(
    "forged",
    [
        _named(_application(), "payroll"),
        _labelled(_named(_config_map("MessageStream"), "kube-root-ca.crt"), run=NAME),
        _named(_config_map(APPLICATION), NOT_YET),
        _named(_pod(DRIVER, "driver"), "payroll-driver"),
        _labelled(_pod("exec-9", "executor"), run="payroll"),
        _labelled(_config_map("MessageStream"), stream="another", uid="u2"),
        _labelled(_named(_application(), "payroll"), run=NAME, stream="orders"),
    ],
    ids=["application", "config-map", "number", "driver", "executor", "resource", "label"],
)
def test_no_label_makes_an_object_a_run_or_a_part_of_one(cache: Cache, forged: dict[str, Any]) -> None:
    cache.put(_stream())
    cache.put(_stream("another", uid="u2"))
    before = cache.versions()
    assert (cache.put(forged), cache.is_newer(forged), cache.remove(forged)) == (set(), False, set())
    assert (cache.runs_of(stream()), list(cache.all_runs()), cache.versions()) == ([], [], before)


@pytest.mark.parametrize("part", [_config_map(APPLICATION), _pod(DRIVER, "driver"), _pod("exec-1", "executor")])
@pytest.mark.parametrize("first", [True, False])
def test_the_objects_of_a_run_belong_together_by_uid(cache: Cache, part: dict[str, Any], first: bool) -> None:
    """An earlier application of the name may have left its own, and anybody may make an object of that name."""
    cache.put(_stream())
    forged = _owned(part, "of-another-application")
    for seen in (forged, _application()) if first else (_application(), forged):
        cache.put(seen)
    found = cache.run(RUN)
    assert found.application is not None
    assert not any(found.parts(part["kind"]))


def test_an_application_that_has_a_runs_name_and_another_owner_is_not_that_run(cache: Cache) -> None:
    cache.put(_stream())
    assert cache.put(_owned(_application(), "of-another-stream")) == set()
    assert cache.run(RUN).empty


def test_a_driver_without_owners_is_one_as_it_may_still_write(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_application())
    pod = _pod(DRIVER, "driver")
    del pod["metadata"]["ownerReferences"]
    cache.put(pod)
    assert cache.run(RUN).driver is not None


def test_a_part_of_a_run_stays_one_whatever_labels_and_owners_it_gets(cache: Cache) -> None:
    cache.put(_stream())
    cache.put(_application())
    cache.put(_config_map(APPLICATION))
    newer = _labelled(_owned(_config_map(APPLICATION), "another"), run="payroll", stream="another")
    newer["metadata"]["resourceVersion"] = "2"
    cache.put(newer)
    assert [key for key, _ in cache.all_runs()] == [RUN]
    assert cache.run(RUN).config_map is not None


def test_a_run_that_only_a_lease_names_is_known_though_its_resource_is_gone(cache: Cache) -> None:
    cache.put(_lease(f"default/{NAME}"))
    cache.put(_application())
    cache.put(_config_map(APPLICATION))
    assert [key for key, _ in cache.all_runs()] == [RUN]
