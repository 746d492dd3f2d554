"""Kubeflow's Spark operator as the backend: one SparkApplication (v1beta2) per run, never changed."""

from collections.abc import Mapping
from typing import Any, Literal

from messagestore_operator.api.spark import Spark, bytes_of
from messagestore_operator.api.spark_conf import ALLOWED_CONF
from messagestore_operator.cluster.labels import owner_reference, run_annotations, run_labels
from messagestore_operator.cluster.observe import observed_run
from messagestore_operator.cluster.pods import Launch, driver_template, executor_template
from messagestore_operator.cluster.reports import NO_READING, Reading
from messagestore_operator.cluster.run_objects import RunObjects
from messagestore_operator.decide.snapshot import ObservedRun
from messagestore_operator.kube.client import AlreadyExistsError, KubeClient
from messagestore_operator.kube.objects import ApiObject, Kind, name_of, namespace_of
from messagestore_operator.names import DRIVER_ENDING
from messagestore_operator.settings import SparkSettings

API_VERSION = "sparkoperator.k8s.io/v1beta2"
KIND = "SparkApplication"

JAVA_OPTIONS = "-XX:+UseParallelGC -XX:-DontCompileHugeMethods"
"""The jobs' own settings for the driver's JVM, which starts before their code runs."""

OWN_CONF: Mapping[str, str] = {
    # The driver may only create pods: no ConfigMap for executors, no PersistentVolumeClaims.
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # It would show the whole configuration to anybody who can connect to the pod.
    "spark.ui.enabled": "false",
}
"""Settings of all runs, which nothing overrides."""


_LEAST_OVERHEAD = 1 << 30


def application(launch: Launch) -> dict[str, Any]:
    """The SparkApplication of a run, with the run's name, owned by the run's resource.

    Raises:
        ValueError: the run asks for a Spark setting that is not allowed.
    """
    run, spark, wanted = launch.run.run, launch.spark, launch.run.spark or Spark()
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": run.name,
            "namespace": run.namespace,
            "labels": {**spark.labels, **launch.labels, **run_labels(run, launch.owner)},
            "annotations": run_annotations(run),
            "ownerReferences": [owner_reference(launch.owner)],
        },
        "spec": {
            "type": "Python",
            "pythonVersion": "3",
            "mode": "cluster",
            "sparkVersion": spark.version,
            "image": wanted.image or spark.image,
            "imagePullPolicy": spark.image_pull_policy,
            **({"imagePullSecrets": list(spark.image_pull_secrets)} if spark.image_pull_secrets else {}),
            "mainApplicationFile": spark.main_file,
            **_batch_scheduler(spark),
            # The operator itself retries, each time with a new run and a new name.
            "restartPolicy": {"type": "Never"},
            "sparkConf": _conf(launch, wanted),
            "driver": {
                **_size("driver", spark, wanted),
                "serviceAccount": launch.driver.service_account,
                "template": driver_template(launch),
            },
            "executor": {**_size("executor", spark, wanted), "template": executor_template(launch)},
        },
    }


def _batch_scheduler(spark: SparkSettings) -> dict[str, Any]:
    if spark.batch_scheduler is None:
        return {}
    options = spark.batch_scheduler_options.to_dict()
    return {"batchScheduler": spark.batch_scheduler, **({"batchSchedulerOptions": options} if options else {})}


def _size(role: Literal["driver", "executor"], spark: SparkSettings, wanted: Spark) -> dict[str, Any]:
    """A pod's size: each field from the resource, else from the settings.

    It has memory overhead, unless a setting has that: Spark's default is too small for Python beside a driver, and for
    what an executor holds outside a small heap.
    """
    default, own = getattr(spark, role), getattr(wanted, role)
    size = {**default.to_dict(), **(own.to_dict() if own else {})}
    if {f"spark.{role}.memoryOverhead", f"spark.{role}.memoryOverheadFactor"} & {*spark.conf, *wanted.conf}:
        return size
    return {**size, "memoryOverhead": f"{max(_LEAST_OVERHEAD, bytes_of(size['memory']) * 2 // 5) >> 20}m"}


def _conf(launch: Launch, wanted: Spark) -> dict[str, str]:
    fits = {name for name, value in wanted.conf.items() if name in ALLOWED_CONF and ALLOWED_CONF[name].fits(value)}
    if refused := sorted(set(wanted.conf) - fits):
        # The API server has refused it already, unless somebody changed the CRD.
        raise ValueError(f"spark.conf holds what is not allowed: {', '.join(refused)}")
    return {**wanted.conf, **launch.spark.conf, **OWN_CONF}


_GROUP, _VERSION = API_VERSION.split("/")
SPARK_APPLICATIONS = Kind(_GROUP, _VERSION, KIND, "sparkapplications")


class KubeflowBackend:
    """Creates and observes runs as SparkApplications of the Kubeflow Spark operator.

    All that the operator knows of it is here, so that another Spark operator can take its place.

    A change of a SparkApplication's spec would run it again, so none is made. A second one of the same name can't be
    created, so a repeated launch has no effect.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    @property
    def kind(self) -> Kind:
        """The kind of its applications. They are watched and have their runs' names."""
        return SPARK_APPLICATIONS

    def render(self, launch: Launch) -> dict[str, Any]:
        """The application of a run: a pure function, so that a run always has the same application.

        Raises:
            ValueError: the run asks for a Spark setting that is not allowed.
        """
        return application(launch)

    async def submit(self, application: ApiObject) -> ApiObject:
        """Create the application; an existing one is returned unchanged.

        Raises:
            InvalidError: the API server refuses it.
            ApiError: anything else.
        """
        namespace = namespace_of(application)
        try:
            return await self._client.create(SPARK_APPLICATIONS.path(namespace), application)
        except AlreadyExistsError:
            return await self._client.get(SPARK_APPLICATIONS.path(namespace, name_of(application)))

    def observe(self, run: RunObjects, reading: Reading = NO_READING) -> ObservedRun | None:
        """The state of a run: a pure function; None if its objects don't name it."""
        return observed_run(run, reading)

    def driver_name(self, run: str) -> str:
        """The name that the Spark operator gives a run's driver pod."""
        return f"{run}{DRIVER_ENDING}"

    async def delete(self, namespace: str, name: str, uid: str) -> bool:
        """Delete an application; its pods follow, because it owns them. False if there was none.

        Raises:
            ConflictError: there is one of that name with another uid, which stays.
        """
        return await self._client.delete(SPARK_APPLICATIONS.path(namespace, name), uid)
