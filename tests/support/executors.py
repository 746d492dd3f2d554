"""The pod that a driver creates for an executor: the operator's template with Spark's additions."""

from typing import Any

from messagestore_operator.cluster.pods import Launch, executor_template

APPLICATION = "spark-1"
DRIVER_UID = "9d0b7a5e-5f0e-4f57-9d6e-3b1f0c2d4e6a"


def executor_pod(launch: Launch) -> dict[str, Any]:
    """The pod as Spark creates it; a test of the jobs compares it with Spark's own builder."""
    run, template = launch.run.run.name, executor_template(launch)
    (container,) = template["spec"]["containers"]
    labels = {
        "spark-app-name": "orders",
        "spark-app-selector": APPLICATION,
        "spark-exec-id": "1",
        "spark-exec-resourceprofile-id": "0",
        "spark-role": "executor",
        "spark-version": "4.1.4",
    }
    driver = {"apiVersion": "v1", "kind": "Pod", "name": f"{run}-driver", "uid": DRIVER_UID, "controller": True}
    plain = {
        "SPARK_USER": "spark",
        "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@{run}-driver-svc:7078",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_EXECUTOR_MEMORY": "1024m",
        "SPARK_APPLICATION_ID": APPLICATION,
        "SPARK_CONF_DIR": "/opt/spark/conf",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
        "_SPARK_AUTH_SECRET": "made by the driver",
    }
    fields = {"SPARK_EXECUTOR_POD_IP": "status.podIP", "SPARK_EXECUTOR_POD_NAME": "metadata.name"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{run}-exec-1",
            "annotations": template["metadata"]["annotations"],
            "labels": {**template["metadata"]["labels"], **labels},
            "ownerReferences": [driver],
        },
        "spec": {
            **template["spec"],
            "containers": [
                {
                    **container,
                    "image": launch.spark.image,
                    "imagePullPolicy": "IfNotPresent",
                    "args": ["executor"],
                    "env": [
                        *container["env"],
                        *({"name": name, "value": value} for name, value in plain.items()),
                        *(
                            {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}
                            for name, path in fields.items()
                        ),
                        {"name": "SPARK_LOCAL_DIRS", "value": "/var/data/spark"},
                    ],
                    "ports": [{"containerPort": 7079, "name": "blockmanager"}],
                    "resources": {
                        "limits": {**container["resources"]["limits"], "memory": "1408Mi"},
                        "requests": {**container["resources"]["requests"], "memory": "1408Mi", "cpu": "1"},
                    },
                }
            ],
            "hostname": f"{run}-exec-1",
            "restartPolicy": "Never",
            "serviceAccount": launch.driver.service_account,
            "serviceAccountName": launch.driver.service_account,
            "terminationGracePeriodSeconds": 30,
        },
    }
