"""The operator's settings: one YAML file, then environment variables, then options of the command line.

In the file, names are in camelCase as everywhere else. A variable is named MESSAGESTORE_OPERATOR_ and the field, with
two underscores before a field of a group: MESSAGESTORE_OPERATOR_SPARK__IMAGE. Its value is read as YAML.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import Cron, Duration, Quantity, TimeZone
from messagestore_operator.api.spark import DriverResources, ExecutorResources
from messagestore_operator.api.text import Name
from messagestore_operator.tenancy import Tenancy
from messagestore_operator.tenancy.sizes import too_large

PREFIX = "MESSAGESTORE_OPERATOR_"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Texts = Annotated[dict[str, str], Field(max_length=64)]


class BatchSchedulerOptions(Model):
    """What a batch scheduler is told of a run; each means what the Spark operator says it does."""

    queue: str | None = Field(default=None, description="Queue that the run waits in.")
    priority_class_name: Name | None = Field(default=None, description="PriorityClass of the run.")


class SparkSettings(Model):
    """What a run's Spark application is made with, where a resource doesn't say."""

    image: str = Field(default="message-store-operator/spark:0.1.0", description="Image of driver and executors.")
    image_pull_policy: str = Field(default="IfNotPresent", description="When nodes pull the image.")
    image_pull_secrets: tuple[Name, ...] = Field(
        default=(), description="Secrets of a run's namespace that the image is pulled with."
    )
    version: str = Field(default="4.1.4", description="Version of Spark in the image.")
    main_file: str = Field(default="local:///opt/messagestore/main.py", description="What the image runs as driver.")
    driver: DriverResources = Field(
        default=DriverResources(cores=1, memory="1g"), description="Size of the driver's pod."
    )
    executor: ExecutorResources = Field(
        default=ExecutorResources(instances=1, cores=1, memory="1g"), description="Number and size of executors."
    )
    conf: Texts = Field(default={}, description="Spark settings of every run; no allow list, they are the operator's.")
    node_selector: Texts = Field(default={}, description="Labels that the pods' nodes must have.")
    tolerations: tuple[dict[str, Any], ...] = Field(default=(), description="Tolerations of the pods.")
    labels: Texts = Field(default={}, description="Further labels of the applications, such as a queue of Kueue's.")
    batch_scheduler: Name | None = Field(
        default=None, description="Scheduler of the pods, such as volcano or yunikorn; the Spark operator must know it."
    )
    batch_scheduler_options: BatchSchedulerOptions = Field(
        default=BatchSchedulerOptions(), description="What that scheduler is told."
    )
    pod_labels: Texts = Field(default={}, description="Further labels of the pods.")
    pod_annotations: Texts = Field(default={}, description="Annotations of the pods.")
    scratch: Quantity = Field(
        default=Quantity("20Gi"),
        description="How much each of a pod's own folders may hold: /tmp, its working directory, what Spark spills.",
    )


class DriverSettings(Model):
    """What drivers are to the API server. Their own run's ConfigMap is granted to them run by run, by the operator."""

    service_account: Name = Field(default="message-store-driver", description="ServiceAccount of the drivers.")
    cluster_role: Name | None = Field(
        default=None,
        description="ClusterRole that lets a driver make its executors' pods. Given, the operator makes the "
        "ServiceAccount and a RoleBinding to it in each namespace that gets a run; absent, they are there already.",
    )
    annotations: Texts = Field(
        default={}, description="Annotations of the ServiceAccounts it makes, such as a cloud's identity."
    )


class MaintenanceSettings(Model):
    """When a stream's tables are compacted and cleaned."""

    commits: Count | None = Field(default=200, description="Commits since the last time.")
    small_files: Count | None = Field(default=200, description="Small files.")
    every: Duration | None = Field(default=Duration("P1D"), description="Time since the last time.")


class RunsAtOnce(Model):
    """How many runs there may be at once. Absent is no bound: a cluster's quotas and scheduler know what it bears."""

    in_all: Count | None = Field(default=None, description="Runs of the whole operator.")
    in_namespace: Count | None = Field(default=None, description="Runs of one namespace.")
    at_endpoint: Count | None = Field(
        default=None, description="Runs on stores at one storage endpoint; the default one counts as one."
    )


class RunWindow(Model):
    """A time of the day, the week or the month."""

    cron: Cron = Field(description="When it opens: minute, hour, day of month, month and day of week.")
    time_zone: TimeZone = Field(default=TimeZone("UTC"), description="Time zone of the cron expression.")
    duration: Duration = Field(description="How long it is open.")


class RunSettings(Model):
    """How runs are started, waited for and tried again."""

    paused: bool = Field(default=False, description="Whether nothing new is launched; what runs goes on.")
    windows: Annotated[tuple[RunWindow, ...], Field(max_length=64)] = Field(
        default=(),
        description="In which runs that are no ingest, and delete no store, are started; empty: at any time.",
    )
    start_deadline: Duration = Field(
        default=Duration("PT15M"), description="How long a driver, or the first of its executors, may take to run."
    )
    stop_deadline: Duration = Field(default=Duration("PT15M"), description="How long a run may take to stop.")
    backoff_base: Duration = Field(default=Duration("PT10S"), description="Wait before the second try.")
    backoff_max: Duration = Field(default=Duration("PT10M"), description="No wait between tries is longer.")
    yield_after: Duration = Field(
        default=Duration("PT1M"), description="How long a run waits for a table before a continuous one is stopped."
    )
    look_again: Duration = Field(default=Duration("PT5S"), description="How often what is under way is looked at.")
    at_once: RunsAtOnce = Field(default=RunsAtOnce(), description="Runs at once; continuous ones count for ever.")
    starts_per_second: Annotated[float, Field(gt=0, le=10_000)] = Field(
        default=40.0, description="Runs that are started a second, each of which makes two pods or more."
    )
    streams_at_once: Count = Field(default=2, description="Runs of one policy at a time.")
    ended_runs: Count = Field(default=3, description="Ended runs that are kept as objects.")
    deletion_bound: Duration = Field(
        default=Duration("PT5M"), description="How long a deletion waits for what can't come."
    )


class LeaderSettings(Model):
    """The election among replicas."""

    enabled: bool = Field(default=True, description="Whether replicas elect a leader; without, run only one.")
    lease: Name = Field(default="message-store-operator-leader", description="Name of the Lease.")
    duration: Seconds = Field(default=15.0, description="Seconds until another replica takes over.")
    renew_deadline: Seconds = Field(default=10.0, description="Seconds without renewal after which a leader exits.")
    retry: Seconds = Field(default=2.0, description="Seconds between two renewals.")


class MetricsSettings(Model):
    """How /metrics is served."""

    authentication: bool = Field(
        default=False, description="Whether who asks must prove by a token that they may get the URL /metrics."
    )
    certificates: str | None = Field(
        default=None, description="Folder with tls.crt and tls.key, by which it speaks TLS; absent, it speaks HTTP."
    )


class Settings(Model):
    """Everything that can be set."""

    namespace: Name = Field(default="default", description="The operator's own namespace, where its Leases are.")
    watch_namespaces: tuple[Name, ...] = Field(default=(), description="Namespaces that are served; empty means all.")
    requests_per_second: Annotated[float, Field(gt=0, le=10_000)] = Field(
        default=300.0, description="Requests to the API server, over a longer time."
    )
    request_burst: Count = Field(default=600, description="Requests at once.")
    workers: Annotated[int, Field(ge=1, le=64)] = Field(default=16, description="Resources looked at together.")
    resync: Duration = Field(default=Duration("PT10M"), description="How often everything is read and looked at anew.")
    status_interval: Duration = Field(
        default=Duration("PT1M"), description="How often a status is written of which only figures change, at most."
    )
    listen: str = Field(default="0.0.0.0", description="Address of probes and metrics.")
    health_port: Port = Field(default=8081, description="Port of /healthz and /readyz; 0 is any that is free.")
    metrics_port: Port = Field(default=8080, description="Port of /metrics; 0 is any that is free.")
    metrics: MetricsSettings = Field(default=MetricsSettings(), description="How /metrics is served.")
    stalled_after: Duration = Field(
        default=Duration("PT2M"),
        description="How late reconciling, or the watches, may be before a replica is unready.",
    )
    leader: LeaderSettings = Field(default=LeaderSettings(), description="The election among replicas.")
    driver: DriverSettings = Field(default=DriverSettings(), description="Drivers' rights.")
    spark: SparkSettings = Field(default=SparkSettings(), description="Runs' Spark applications.")
    runs: RunSettings = Field(default=RunSettings(), description="How runs are started and tried again.")
    maintenance: MaintenanceSettings = Field(default=MaintenanceSettings(), description="Upkeep of tables.")
    tenancy: Tenancy = Field(default=Tenancy(), description="What resources may ask for.")

    @model_validator(mode="after")
    def _own_sizes_are_allowed(self) -> Self:
        """What a resource may not ask for it doesn't get by asking for nothing."""
        found = too_large(self.spark.driver, self.spark.executor, self.tenancy.sizes)
        if lines := [f"spark.{'.'.join(path)}: {why}" for path, why in found]:
            raise ValueError("; ".join(lines))
        return self


class SettingsProblemError(ValueError):
    """Settings that can't be used; the message names each with what is wrong."""


def load(file: Path | None, environment: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Settings:
    """Put the settings together.

    Args:
        file: YAML, if there is one.
        environment: variables.
        options: of the command line, by their names in the file; those that are None weren't given.

    Raises:
        SettingsProblemError: a value is wrong, or its name is unknown.
    """
    found = _namespace(environment) | _of_file(file)
    for name, text in environment.items():
        if name.startswith(PREFIX):
            _put(found, name, text)
    found |= {name: value for name, value in (options or {}).items() if value is not None}
    try:
        return Settings.model_validate(found)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, line['loc']))}: {line['msg']}" for line in error.errors(include_url=False)]
        raise SettingsProblemError("; ".join(lines)) from None


def _namespace(environment: Mapping[str, str]) -> dict[str, Any]:
    """In a pod, where the pod is."""
    if given := environment.get("POD_NAMESPACE"):
        return {"namespace": given}
    return {"namespace": _NAMESPACE_FILE.read_text().strip()} if _NAMESPACE_FILE.exists() else {}


def _of_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        found = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8")) or {}
    except (OSError, YAMLError) as error:
        raise SettingsProblemError(f"{file}: {error}") from None
    if not isinstance(found, dict):
        raise SettingsProblemError(f"{file}: must hold settings by their names")
    return found


def _put(settings: dict[str, Any], variable: str, text: str) -> None:
    """Set the field that a variable names."""
    *groups, field = [_camel(part) for part in variable.removeprefix(PREFIX).lower().split("__")]
    for group in groups:
        settings = settings.setdefault(group, {})
    try:
        settings[field] = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise SettingsProblemError(f"{variable}: {error}") from None


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)


def seconds(duration: Duration) -> float:
    """A duration in seconds."""
    span: timedelta = duration.timedelta
    return span.total_seconds()
