"""One SparkApplication of Kubeflow's Spark operator for each run.

A change of its spec would run it again, so none is made. A second one of the same name can't be created, so a repeated
launch has no effect.
"""

from collections.abc import Mapping
from typing import Any, Literal

from messagestore_operator.api.spark import Spark, bytes_of
from messagestore_operator.api.spark_conf import ALLOWED_CONF
from messagestore_operator.cluster.labels import owner_reference, run_annotations, run_labels
from messagestore_operator.cluster.pods import Launch, driver_template, executor_template
from messagestore_operator.kube.objects import SPARK_APPLICATIONS
from messagestore_operator.settings import SparkSettings

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
        "apiVersion": SPARK_APPLICATIONS.api_version,
        "kind": SPARK_APPLICATIONS.name,
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
