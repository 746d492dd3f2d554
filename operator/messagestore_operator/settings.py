"""The operator's settings: one YAML file, then environment variables, then options of the command line.

In the file, names are in camelCase as everywhere else. A variable is named MESSAGESTORE_OPERATOR_ and the field, with
two underscores before a field of a group: MESSAGESTORE_OPERATOR_SPARK__IMAGE. Its value is read as YAML.
"""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from messagestore_core.logs import LogFormat
from messagestore_core.text import camel
from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import Cron, Duration, Name, Quantity, TimeZone
from messagestore_operator.api.spark import DriverResources, ExecutorResources
from messagestore_operator.tenancy.settings import Tenancy
from messagestore_operator.tenancy.sizes import too_large

PREFIX = "MESSAGESTORE_OPERATOR_"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Texts = Annotated[dict[str, str], Field(max_length=64)]


class BatchSchedulerOptions(Model):
    """Options for the batch scheduler, passed to the Spark operator."""

    queue: str | None = Field(default=None, description="Queue that the run waits in.")
    priority_class_name: Name | None = Field(default=None, description="PriorityClass of the run.")


class Placement(Model):
    """Where the pods of one role run. Node selector and tolerations are added to those of both roles."""

    node_selector: Texts = Field(default={}, description="Labels of the nodes that may run the pods.")
    tolerations: tuple[dict[str, Any], ...] = Field(default=(), description="Tolerations of the pods.")
    affinity: dict[str, Any] = Field(default={}, description="Affinity of the pods.")
    priority_class_name: Name | None = Field(default=None, description="PriorityClass of the pods.")
    scheduler_name: Name | None = Field(default=None, description="Scheduler of the pods.")


class Placements(Model):
    """Where drivers and executors run."""

    driver: Placement = Field(default=Placement(), description="Of the drivers.")
    executor: Placement = Field(default=Placement(), description="Of the executors.")


class SparkSettings(Model):
    """Defaults of the runs' Spark applications."""

    image: str = Field(default="", description="Image of driver and executors. The operator does not start without.")
    image_pull_policy: str = Field(default="IfNotPresent", description="When nodes pull the image.")
    image_pull_secrets: tuple[Name, ...] = Field(
        default=(), description="Secrets for pulling the image, in the run's namespace."
    )
    version: str = Field(default="4.1.4", description="Version of Spark in the image.")
    main_file: str = Field(
        default="local:///opt/messagestore/main.py", description="The driver's main file in the image."
    )
    driver: DriverResources = Field(
        default=DriverResources(cores=1, memory="1g"), description="Size of the driver's pod."
    )
    executor: ExecutorResources = Field(
        default=ExecutorResources(instances=1, cores=1, memory="1g"), description="Number and size of executors."
    )
    executors_from: Quantity = Field(
        default=Quantity("64Mi"),
        description="A run that reads less starts no executors: its driver does the work. For an ingest the bytes of "
        "its files count, unpacked; for a purge or replay those of the store's files that it may need. With a batch "
        "scheduler all runs have executors.",
    )
    conf: Texts = Field(default={}, description="Spark settings of all runs. No allow list applies to them.")
    node_selector: Texts = Field(default={}, description="Labels of the nodes that may run the pods.")
    tolerations: tuple[dict[str, Any], ...] = Field(default=(), description="Tolerations of the pods.")
    placement: Placements = Field(default=Placements(), description="Where drivers, and executors, run besides.")
    labels: Texts = Field(default={}, description="Additional labels of the SparkApplications, such as a Kueue queue.")
    batch_scheduler: Name | None = Field(
        default=None, description="Batch scheduler, such as volcano or yunikorn, which the Spark operator must support."
    )
    batch_scheduler_options: BatchSchedulerOptions = Field(
        default=BatchSchedulerOptions(), description="Options for the batch scheduler."
    )
    pod_labels: Texts = Field(default={}, description="Additional labels of the pods.")
    pod_annotations: Texts = Field(default={}, description="Additional annotations of the pods.")
    scratch: Quantity = Field(
        default=Quantity("20Gi"),
        description="Maximum size of each of a pod's own folders: /tmp, working directory, Spark's spills.",
    )
    scratch_request: Quantity = Field(
        default=Quantity("1Gi"),
        description="What a pod requests of its node's disk (ephemeral-storage). Its limit is what its folders there "
        "may hold together, and 1Gi for its logs.",
    )
    scratch_storage_class: Name | None = Field(
        default=None,
        description="StorageClass of a volume for Spark's spills, which ends with its pod. If absent, the node's disk.",
    )


class DriverSettings(Model):
    """The drivers' account. The operator grants each driver its own run's ConfigMap."""

    service_account: Name = Field(default="message-store-driver", description="ServiceAccount of the drivers.")
    cluster_role: Name | None = Field(
        default=None,
        description="ClusterRole that lets a driver create executor pods. If set, the operator creates the "
        "ServiceAccount and a RoleBinding in each namespace with runs. If absent, they must exist.",
    )
    annotations: Texts = Field(
        default={}, description="Annotations of the ServiceAccounts that it creates, such as a cloud identity."
    )
    namespace_annotations: dict[str, Texts] = Field(
        default={}, description="By namespace, instead of annotations: a cloud identity of its own."
    )


class MaintenanceSettings(Model):
    """When a stream's tables are maintained: whichever limit is reached first."""

    commits: Count | None = Field(default=200, description="Commits since the last maintenance. If null, no limit.")
    small_files: Count | None = Field(default=200, description="Small files. If null, no limit.")
    every: Duration | None = Field(
        default=Duration("P1D"), description="Time since the last maintenance. If null, no limit."
    )


class RunsAtOnce(Model):
    """Maximum concurrent runs. If absent, no limit: quotas and the scheduler bound them."""

    in_all: Count | None = Field(default=None, description="Maximum concurrent runs in all.")
    in_namespace: Count | None = Field(default=None, description="Maximum concurrent runs of one namespace.")
    at_endpoint: Count | None = Field(
        default=None, description="Maximum concurrent runs on stores at one storage endpoint."
    )


class RunWindow(Model):
    """A recurring time window."""

    cron: Cron = Field(description="When the window opens: minute, hour, day of month, month and day of week.")
    time_zone: TimeZone = Field(default=TimeZone("UTC"), description="Time zone of the cron expression.")
    duration: Duration = Field(description="How long the window is open.")


class RunSettings(Model):
    """How runs are started and retried."""

    paused: bool = Field(default=False, description="If true, no new run starts. Runs in progress continue.")
    windows: Annotated[tuple[RunWindow, ...], Field(max_length=64)] = Field(
        default=(),
        description="Times (cron, timeZone, duration) at which purges, erasures, replays and maintenance may start. If "
        "empty, any.",
    )
    start_deadline: Duration = Field(
        default=Duration("PT15M"), description="How long the driver, and then the first executor, may take to start."
    )
    stop_deadline: Duration = Field(
        default=Duration("PT15M"), description="How long a run may take to stop. Then it is ended."
    )
    backoff_base: Duration = Field(
        default=Duration("PT10S"), description="Wait before the first retry. It doubles with each retry."
    )
    backoff_max: Duration = Field(default=Duration("PT10M"), description="Longest wait before a retry.")
    yield_after: Duration = Field(
        default=Duration("PT1M"),
        description="How long a run waits for a table before a continuous run on it is stopped.",
    )
    stalled_after: Duration = Field(
        default=Duration("PT15M"),
        description="How long refused credentials, or a missing bucket, topic or Secret, may last until a resource is "
        "Stalled. Retries go on.",
    )
    retention_blocked_after: Duration = Field(
        default=Duration("P7D"),
        description="How long messages may wait for a subscription in consumedBy until their policy has condition "
        "RetentionBlocked.",
    )
    poll_interval: Duration = Field(
        default=Duration("PT5S"), alias="lookAgain", description="How often runs in progress are checked."
    )
    at_once: RunsAtOnce = Field(
        default=RunsAtOnce(), description="Maximum concurrent runs. A continuous run occupies a slot until it ends."
    )
    starts_per_second: Annotated[float, Field(gt=0, le=10_000)] = Field(
        default=40.0, description="Maximum runs started per second. Each run has two pods or more."
    )
    streams_at_once: Count = Field(default=2, description="Maximum concurrent runs of one policy.")
    ended_runs: Count = Field(default=3, description="Number of ended SparkApplications to keep for each resource.")
    deletion_bound: Duration = Field(
        default=Duration("PT5M"),
        description="How long deleting a stream waits when its data can't be deleted. Then the resource goes and the "
        "data stays.",
    )


class LeaderSettings(Model):
    """Leader election among replicas."""

    enabled: bool = Field(default=True, description="Elect a leader among replicas. If false, run only one replica.")
    lease: Name = Field(default="message-store-operator-leader", description="Name of the Lease.")
    duration: Seconds = Field(default=15.0, description="Seconds until another replica takes over.")
    renew_deadline: Seconds = Field(default=10.0, description="Seconds without renewal after which a leader exits.")
    retry: Seconds = Field(default=2.0, description="Seconds between two renewals.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        """Check that a leader has time to renew, and has stopped before another replica takes over."""
        if not self.duration > self.renew_deadline > self.retry:
            raise ValueError("duration must be more than renewDeadline, and that more than retry")
        return self


class MetricsSettings(Model):
    """How /metrics is served."""

    authentication: bool = Field(
        default=False, description="Require a bearer token that is authorised for GET /metrics."
    )
    certificates: str | None = Field(
        default=None, description="Folder with tls.crt and tls.key for HTTPS. If absent, plain HTTP."
    )


class Settings(Model):
    """All settings."""

    namespace: Name = Field(
        default="default", description="The operator's own namespace, which has its Leases. In a pod, the pod's."
    )
    watch_namespaces: tuple[Name, ...] = Field(default=(), description="Namespaces to watch. If empty, all.")
    requests_per_second: Annotated[float, Field(gt=0, le=10_000)] = Field(
        default=300.0,
        description="Average requests per second to the API server, without renewals of the leader's Lease.",
    )
    request_burst: Count = Field(default=600, description="Maximum burst of requests to the API server.")
    workers: Annotated[int, Field(ge=1, le=64)] = Field(default=16, description="Resources reconciled in parallel.")
    resync: Duration = Field(
        default=Duration("PT10M"), description="How often all resources are listed and reconciled again."
    )
    status_interval: Duration = Field(
        default=Duration("PT1M"), description="Minimum time between writes of a status in which only figures change."
    )
    log_format: LogFormat = Field(
        default="text", description="Lines of the log, of the operator and of drivers: text, or json."
    )
    listen: str = Field(default="0.0.0.0", description="Address for probes and metrics.")
    health_port: Port = Field(default=8081, description="Port of /healthz and /readyz. 0 is any free port.")
    metrics_port: Port = Field(default=8080, description="Port of /metrics. 0 is any free port.")
    metrics: MetricsSettings = Field(default=MetricsSettings(), description="How /metrics is served.")
    stalled_after: Duration = Field(
        default=Duration("PT2M"), description="How late reconciling or watches may be before a replica is unready."
    )
    leader: LeaderSettings = Field(default=LeaderSettings(), description="Leader election among replicas.")
    driver: DriverSettings = Field(default=DriverSettings(), description="The drivers' account.")
    spark: SparkSettings = Field(default=SparkSettings(), description="Defaults of the runs' Spark applications.")
    runs: RunSettings = Field(default=RunSettings(), description="How runs are started and retried.")
    maintenance: MaintenanceSettings = Field(
        default=MaintenanceSettings(),
        description="When a stream's tables are maintained: whichever limit is reached first.",
    )
    tenancy: Tenancy = Field(default=Tenancy(), description="What resources may ask for: see security.md.")

    @property
    def shares_identity(self) -> bool:
        """Whether only prefixes divide the storage that one cloud identity of all namespaces reaches."""
        storage = self.tenancy.storage
        divided = bool(storage.prefixes) and not storage.require_credentials
        return divided and bool(self.driver.annotations) and len(self.watch_namespaces) != 1

    @model_validator(mode="after")
    def _own_sizes_are_allowed(self) -> Self:
        """Check that the defaults for runs keep within the limits of tenancy."""
        problems = too_large(self.spark.driver, self.spark.executor, self.tenancy.sizes)
        if lines := [f"spark.{'.'.join(path)}: {why}" for path, why in problems]:
            raise ValueError("; ".join(lines))
        return self


class SettingsProblemError(ValueError):
    """Invalid settings; the message names each and its problem."""


def load(file: Path | None, environment: Mapping[str, str], options: Mapping[str, Any] | None = None) -> Settings:
    """Read the settings.

    Args:
        file: a YAML file, or None.
        options: options of the command line, by their names in the file; None means not given.

    Raises:
        SettingsProblemError: a value is wrong, or its name is unknown.
    """
    values = _namespace(environment) | _of_file(file)
    for name, text in environment.items():
        if name.startswith(PREFIX):
            _put(values, name, text)
    values |= {name: value for name, value in (options or {}).items() if value is not None}
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        raise SettingsProblemError("; ".join(map(_line, error.errors(include_url=False)))) from None


def _line(problem: Mapping[str, Any]) -> str:
    """A problem with the field that has it; one of several fields names them itself."""
    where, words = ".".join(map(str, problem["loc"])), problem["msg"].removeprefix("Value error, ")
    return f"{where}: {words}" if where else words


def _namespace(environment: Mapping[str, str]) -> dict[str, Any]:
    """The pod's namespace; empty outside a pod."""
    if given := environment.get("POD_NAMESPACE"):
        return {"namespace": given}
    return {"namespace": _NAMESPACE_FILE.read_text().strip()} if _NAMESPACE_FILE.exists() else {}


def _of_file(file: Path | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        document = YAML(typ="safe", pure=True).load(file.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise SettingsProblemError(f"{file}: {error}") from None
    if not isinstance(document, dict):
        raise SettingsProblemError(f"{file}: must hold settings by their names")
    return document


def _put(settings: dict[str, Any], variable: str, text: str) -> None:
    """Set the field that a variable names."""
    *groups, field = [camel(part) for part in variable.removeprefix(PREFIX).lower().split("__")]
    for group in groups:
        # A group without any fields is null in YAML.
        settings[group] = settings.get(group) or {}
        settings = settings[group]
        if not isinstance(settings, dict):
            raise SettingsProblemError(f"{group}: must hold settings by their names")
    try:
        settings[field] = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise SettingsProblemError(f"{variable}: {error}") from None


def seconds(duration: Duration) -> float:
    """A duration in seconds."""
    span: timedelta = duration.timedelta
    return span.total_seconds()
