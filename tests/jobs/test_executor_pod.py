"""Spark turns the operator's executor template into the pod with which the drivers' rules are tested."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from messagestore_operator.cluster.kubeflow import application
from support.executors import APPLICATION, DRIVER_UID, executor_pod
from support.launches import launch

OF_A_RUN = {"SPARK_USER", "_SPARK_AUTH_SECRET"}


def test_the_executor_pod_of_the_admission_tests_is_the_one_that_spark_makes(
    spark: SparkSession, tmp_path: Path
) -> None:
    wanted = launch()
    made, expected = _of_spark(spark.sparkContext._jvm, wanted, tmp_path), executor_pod(wanted)
    for pod in (made, expected):
        (container,) = pod["spec"]["containers"]
        # Without the values that only this run knows.
        own = [one | {"value": ""} if one["name"] in OF_A_RUN else one for one in container["env"]]
        container["env"] = sorted(own, key=str)
    assert made == expected


def _of_spark(jvm: Any, wanted: Any, folder: Path) -> dict[str, Any]:
    """The pod from the builder that a driver uses."""
    run, spec = wanted.run.run.name, application(wanted)["spec"]
    template = folder / "executor.json"
    template.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **spec["executor"]["template"]}))
    settings = {
        **spec["sparkConf"],
        "spark.app.id": APPLICATION,
        "spark.app.name": "orders",
        "spark.driver.host": f"{run}-driver-svc",
        "spark.driver.port": "7078",
        "spark.executor.cores": "1",
        "spark.executor.memory": "1g",
        "spark.kubernetes.authenticate.driver.serviceAccountName": spec["driver"]["serviceAccount"],
        "spark.kubernetes.container.image": spec["image"],
        "spark.kubernetes.executor.podNamePrefix": run,
        "spark.kubernetes.executor.podTemplateFile": str(template),
    }
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in settings.items():
        conf.set(name, value)
    metadata = jvm.io.fabric8.kubernetes.api.model.PodBuilder().withNewMetadata().withName(f"{run}-driver")
    driver = metadata.withUid(DRIVER_UID).endMetadata().withNewSpec().endSpec().build()
    profiles = getattr(getattr(jvm.org.apache.spark.resource, "ResourceProfile$"), "MODULE$")
    pod = (
        jvm.org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBuilder()
        .buildFromFeatures(
            jvm.org.apache.spark.deploy.k8s.KubernetesConf.createExecutorConf(
                conf, "1", APPLICATION, jvm.scala.Some(driver), profiles.DEFAULT_RESOURCE_PROFILE_ID()
            ),
            jvm.org.apache.spark.SparkEnv.get().securityManager(),
            jvm.io.fabric8.kubernetes.client.KubernetesClientBuilder().build(),
            profiles.getOrCreateDefaultProfile(conf),
        )
        .pod()
    )
    as_json = jvm.io.fabric8.kubernetes.client.utils.Serialization.asJson
    found: dict[str, Any] = json.loads(as_json(pod.pod()))
    found["spec"]["containers"] = [json.loads(as_json(pod.container()))]
    return found
