"""The SparkApplication of a run: sizes, settings, Secrets by reference only, and what no resource can change."""

import json
from dataclasses import replace
from typing import Any

import pytest

from messagestore_core.logs import LogFormat
from messagestore_jobs.driver.main import PodSettings
from messagestore_jobs.session import JAVA_OPTIONS
from messagestore_operator.api.scalars import Quantity
from messagestore_operator.api.spark import Spark
from messagestore_operator.cluster.kubeflow import OWN_CONF, application
from messagestore_operator.settings import BatchSchedulerOptions
from support.launches import launch, replace_spark, stream

EXECUTORS_FROM = "MESSAGESTORE_EXECUTORS_FROM_BYTES"
PLAIN = {"MESSAGESTORE_RUN_DOCUMENT", "MESSAGESTORE_CONFIGMAP", "MESSAGESTORE_GRACE_SECONDS", EXECUTORS_FROM}
CONF = {"spark.sql.shuffle.partitions": "16"}


def _spec(spark: dict[str, Any] | None = None, **settings: Any) -> dict[str, Any]:
    found: dict[str, Any] = application(launch(stream(spark=spark), **settings))["spec"]
    return found


def _container(spec: dict[str, Any], role: str) -> dict[str, Any]:
    found: dict[str, Any] = spec[role]["template"]["spec"]["containers"][0]
    return found


def test_fields_that_a_resource_leaves_out_come_from_the_settings_one_by_one() -> None:
    spec = _spec({"driver": {"memory": "4g"}, "executor": {"instances": 5}})
    driver = {name: spec["driver"][name] for name in ("cores", "memory")}
    executor = {name: spec["executor"][name] for name in ("instances", "cores", "memory")}
    assert (driver, executor) == ({"cores": 1, "memory": "4g"}, {"instances": 5, "cores": 1, "memory": "1g"})


@pytest.mark.parametrize("role", ["driver", "executor"])
@pytest.mark.parametrize(
    ("memory", "spark_conf", "settings_conf", "beside"),
    [
        (None, {}, {}, "1024m"),
        ("2g", {}, {}, "1024m"),
        ("10g", {}, {}, "4096m"),
        (None, {"memoryOverhead": "3g"}, {}, None),
        (None, {}, {"memoryOverheadFactor": "0.5"}, None),
    ],
)
def test_a_pod_has_room_beside_its_heap_unless_a_setting_says_how_much(
    role: str, memory: str | None, spark_conf: dict[str, str], settings_conf: dict[str, str], beside: str | None
) -> None:
    def conf(given: dict[str, str]) -> dict[str, Any]:
        return {"conf": {f"spark.{role}.{name}": value for name, value in given.items()}}

    spark = {**conf(spark_conf), **({role: {"memory": memory}} if memory else {})}
    assert _spec(spark, **conf(settings_conf))[role].get("memoryOverhead") == beside


def test_drivers_log_as_the_operator_does() -> None:
    def variables(log_format: LogFormat) -> dict[str, str]:
        spec = application(replace(launch(), log_format=log_format))["spec"]
        return {one["name"]: one.get("value", "") for one in _container(spec, "driver")["env"]}

    assert variables("json")["MESSAGESTORE_LOG_FORMAT"] == "json"
    assert "MESSAGESTORE_LOG_FORMAT" not in variables("text")


def test_an_empty_image_means_the_operators_own() -> None:
    assert _spec({"image": ""})["image"] == replace_spark().image
    assert _spec({"image": "theirs:1"})["image"] == "theirs:1"


def test_the_operators_settings_beat_a_resources_and_neither_beats_what_every_run_has() -> None:
    own = dict.fromkeys(OWN_CONF, "false")
    given = {**CONF, "spark.io.compression.codec": "lz4"}
    conf = _spec({"conf": given}, conf={**own, "spark.io.compression.codec": "zstd"})
    assert conf["sparkConf"] == {**CONF, "spark.io.compression.codec": "zstd", **OWN_CONF}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.kubernetes.authenticate.driver.serviceAccountName", "x"),
        ("spark.driver.extraJavaOptions", "x"),
        ("spark.jars", "x"),
        ("spark.locality.wait", "${env:HOME}"),
    ],
)
def test_a_setting_that_is_not_allowed_makes_no_application_though_the_api_let_it_through(
    name: str, value: str
) -> None:
    owner = stream()
    smuggled = Spark.model_construct(image=None, driver=None, executor=None, conf={name: value})
    owner = owner.model_copy(update={"spec": owner.spec.model_copy(update={"spark": smuggled})})
    with pytest.raises(ValueError, match="not allowed"):
        application(launch(owner))


def test_what_a_pod_writes_beside_the_store_is_bounded() -> None:
    spec = _spec(scratch=Quantity("5Gi"))
    for role in ("driver", "executor"):
        pod = spec[role]["template"]["spec"]
        folders = {one["name"]: one["emptyDir"] for one in pod["volumes"] if "emptyDir" in one}
        # Spark uses a volume with such a name as its local folder; otherwise it adds a folder without a limit.
        assert folders == {name: {"sizeLimit": "5Gi"} for name in ("tmp", "work-dir", "spark-local-dir-1")}
        assert folders.keys() <= {one["name"] for one in _container(spec, role)["volumeMounts"]}


@pytest.mark.parametrize(
    ("settings", "request_", "limit"),
    [
        ({}, 1 << 30, 61 << 30),
        ({"scratch": Quantity("5Gi"), "scratch_request": Quantity("2Gi")}, 2 << 30, 16 << 30),
        ({"scratch": Quantity("5Gi"), "scratch_storage_class": "fast"}, 1 << 30, 11 << 30),
        ({"scratch": Quantity("1Mi"), "scratch_request": Quantity("7Gi")}, 1027 << 20, 1027 << 20),
    ],
)
def test_a_pods_disk_is_requested_and_limited_by_what_its_folders_there_may_hold(
    settings: dict[str, Any], request_: int, limit: int
) -> None:
    spec = _spec(**settings)
    for role in ("driver", "executor"):
        disk = {part: int(of["ephemeral-storage"]) for part, of in _container(spec, role)["resources"].items()}
        assert disk == {"requests": request_, "limits": limit}


@pytest.mark.parametrize(
    ("settings", "bytes_"),
    [
        ({}, 64 << 20),
        ({"executors_from": Quantity("1Gi")}, 1 << 30),
        ({"batch_scheduler": "volcano", "executors_from": Quantity("1Gi")}, 0),
    ],
)
def test_a_driver_knows_how_much_it_does_without_executors_unless_they_are_reserved(
    settings: dict[str, Any], bytes_: int
) -> None:
    environment = {one["name"]: one.get("value") for one in _container(_spec(**settings), "driver")["env"]}
    assert environment[EXECUTORS_FROM] == str(bytes_)


def test_a_run_that_needs_executors_has_them_for_the_least_work() -> None:
    needs = replace(launch(), run=replace(launch().run, always_executors=True))
    environment = {one["name"]: one.get("value") for one in _container(application(needs)["spec"], "driver")["env"]}
    assert environment[EXECUTORS_FROM] == "0"


def test_secrets_are_named_and_never_held() -> None:
    spec = _spec()
    for role in ("driver", "executor"):
        secret = [one for one in _container(spec, role)["env"] if one["name"] not in PLAIN]
        values = {one["name"]: one.get("value") for one in secret}
        assert set(values.values()) == {None}
        references = {one["name"]: one["valueFrom"]["secretKeyRef"] for one in secret if "valueFrom" in one}
        assert references["MESSAGESTORE_STORAGE_1_ACCESS_KEY"] == {"name": "lake-credentials", "key": "accessKey"}
        assert references["MESSAGESTORE_STORAGE_1_SESSION_TOKEN"]["optional"] is True
        assert references["MESSAGESTORE_SCRUB_KEY"] == {"name": "scrub-key", "key": "key"}


def test_of_a_secret_with_a_certificate_only_its_key_is_mounted_where_the_document_says() -> None:
    wanted = launch()
    pod = application(wanted)["spec"]["executor"]["template"]["spec"]
    (volume,) = [one for one in pod["volumes"] if "secret" in one]
    (mount,) = [one for one in pod["containers"][0]["volumeMounts"] if one["name"] == volume["name"]]
    (item,) = volume["secret"]["items"]
    assert f"{mount['mountPath']}/{item['path']}" == wanted.run.access.entries[0].ca_file
    assert (volume["secret"]["secretName"], item["key"]) == ("lake-ca", "ca.crt")


def test_only_the_driver_reads_the_document_and_may_speak_with_the_api() -> None:
    spec = _spec()
    tokens = {role: spec[role]["template"]["spec"]["automountServiceAccountToken"] for role in ("driver", "executor")}
    assert tokens == {"driver": True, "executor": False}
    assert "run.json" not in json.dumps(spec["executor"])
    assert {"name": "MESSAGESTORE_RUN_DOCUMENT", "value": "/etc/messagestore/run.json"} in _container(spec, "driver")[
        "env"
    ]


def test_a_driver_knows_how_long_its_pod_lets_it_live_after_sigterm() -> None:
    spec = _spec()
    environment = {one["name"]: one["value"] for one in _container(spec, "driver")["env"] if "value" in one}
    assert (
        PodSettings.of(environment).grace_seconds == spec["driver"]["template"]["spec"]["terminationGracePeriodSeconds"]
    )


def test_the_drivers_jvm_has_the_options_that_the_jobs_want() -> None:
    assert OWN_CONF["spark.driver.extraJavaOptions"] == JAVA_OPTIONS


def test_the_same_run_is_the_same_application() -> None:
    assert application(launch()) == application(launch())


def test_a_batch_scheduler_is_passed_on_with_its_queue() -> None:
    assert not {"batchScheduler", "batchSchedulerOptions"} & _spec().keys()
    options = BatchSchedulerOptions(queue="root.batch")
    spec = _spec(batch_scheduler="yunikorn", batch_scheduler_options=options)
    assert (spec["batchScheduler"], spec["batchSchedulerOptions"]) == ("yunikorn", {"queue": "root.batch"})


def test_of_a_resources_labels_those_that_are_allowed_go_to_application_and_pods_and_take_no_other_place() -> None:
    owner = stream()
    labels = {"queue": "theirs", "team": "a", "messagestore.dev/run": "another"}
    owner = owner.model_copy(update={"metadata": owner.metadata.model_copy(update={"labels": labels})})
    wanted = launch(owner, labels={"queue": "all", "tier": "batch"})
    found = application(replace(wanted, passed_on=("queue", "messagestore.dev/run")))
    for role in ("driver", "executor"):
        pod = found["spec"][role]["template"]["metadata"]["labels"]
        assert (pod["queue"], pod["messagestore.dev/run"], "team" in pod) == ("theirs", "orders-ingest-1", False)
    own = found["metadata"]["labels"]
    assert (own["queue"], own["tier"], own["messagestore.dev/run"]) == ("theirs", "batch", "orders-ingest-1")
