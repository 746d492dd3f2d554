"""The drivers' account lets a driver create and delete executors of its run, and no other pod."""

from collections.abc import Callable
from typing import Any

import pytest

from support.apiserver import Answer
from support.executors import executor_pod
from support.launches import launch, stream
from support.operators import eventually
from support.tenants import Tenants

Pod = dict[str, Any]
RUN = "orders-ingest-1"


@pytest.fixture(scope="module")
def _prepared(tenants: Tenants) -> None:
    """A namespace that has had a run and so has the drivers' account; the API server applies the rules."""
    assert tenants.one.stream("first").accepted
    eventually(lambda: tenants.launched(tenants.one), of=tenants.operator)
    bare = {**plain(), "spec": {"containers": [{"name": "a", "image": "a"}]}}
    eventually(lambda: create(tenants, bare).status == 422)


def plain() -> Pod:
    """An executor pod as Spark creates it from the template with the application's owner reference."""
    pod = executor_pod(launch(stream()))
    application = {"apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication", "name": RUN, "uid": "a"}
    pod["metadata"]["ownerReferences"].insert(0, application)
    return pod


def create(tenants: Tenants, pod: Pod, driver: str = f"{RUN}-driver") -> Answer:
    """Create a pod as a dry run, with a driver's token."""
    path = f"/api/v1/namespaces/{tenants.one.namespace}/pods"
    return tenants.one.server.request("POST", f"{path}?dryRun=All", pod, user=account(tenants), pod=driver)


def account(tenants: Tenants) -> str:
    return f"system:serviceaccount:{tenants.one.namespace}:message-store-driver"


@pytest.mark.usefixtures("_prepared")
def test_a_driver_makes_the_executors_that_spark_makes(tenants: Tenants) -> None:
    answer = create(tenants, plain())
    assert answer.accepted, answer.body


@pytest.mark.usefixtures("_prepared")
def test_an_executor_may_have_a_token_for_a_cloud(tenants: Tenants) -> None:
    """Clouds mount it with a webhook, for the identity of the account."""
    pod = plain()
    token = {"serviceAccountToken": {"audience": "sts.amazonaws.com", "path": "token"}}
    pod["spec"]["volumes"].append({"name": "cloud", "projected": {"sources": [token]}})
    answer = create(tenants, pod)
    assert answer.accepted, answer.body


def of_spec(**fields: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"].update(fields)


def of_container(**fields: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["containers"][0].update(fields)


def of_security(**fields: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["containers"][0]["securityContext"].update(fields)


def with_volume(**volume: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["volumes"].append({"name": "more", **volume})


def with_variable(**value: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["containers"][0]["env"].append({"name": "MORE", "valueFrom": value})


def without(*path: str) -> Callable[[Pod], None]:
    def change(pod: Pod) -> None:
        for step in path[:-1]:
            pod = pod[step]
        del pod[path[-1]]

    return change


def of_another_driver(pod: Pod) -> None:
    pod["metadata"]["ownerReferences"][-1]["name"] = "payments-ingest-1-driver"


def of_another_application(pod: Pod) -> None:
    pod["metadata"]["ownerReferences"][0]["name"] = "payments-ingest-1"


def of_anything_else(pod: Pod) -> None:
    pod["metadata"]["ownerReferences"][0]["kind"] = "MessageStream"


def of_another_run(pod: Pod) -> None:
    of_another_driver(pod)
    pod["metadata"]["labels"]["messagestore.dev/run"] = "payments-ingest-1"


MORE = {"name": "more", "image": "message-store-operator/spark:0.1.0"}
OWN, BELONGS, NODE = "only executors of its run", "belongs to the driver", "must not use its node"
ONE, TOKEN, PRIVILEGE = "is one container", "no token", "no privilege"
VOLUMES, VARIABLES = "volumes are empty folders", "variables are values"


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (without("metadata", "labels", "spark-role"), OWN),
        (without("metadata", "labels", "app.kubernetes.io/managed-by"), OWN),
        (without("metadata", "labels"), OWN),
        (without("metadata", "ownerReferences"), BELONGS),
        (of_another_driver, BELONGS),
        (of_another_application, BELONGS),
        (of_anything_else, BELONGS),
        (of_another_run, BELONGS),
        (of_spec(serviceAccountName="admin", serviceAccount="admin"), "has the account of drivers"),
        (of_spec(automountServiceAccountToken=True), TOKEN),
        (without("spec", "automountServiceAccountToken"), TOKEN),
        (with_volume(projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}), TOKEN),
        (of_container(image="registry.example.org/theirs:1"), ONE),
        (lambda pod: pod["spec"]["containers"].append(MORE), ONE),
        (of_spec(initContainers=[MORE]), ONE),
        (of_spec(hostNetwork=True), NODE),
        (of_spec(hostPID=True), NODE),
        (of_spec(hostIPC=True), NODE),
        (of_spec(nodeName="control-plane"), NODE),
        (of_container(ports=[{"containerPort": 80, "hostPort": 80}]), NODE),
        (of_security(allowPrivilegeEscalation=True), PRIVILEGE),
        (of_security(runAsNonRoot=False), PRIVILEGE),
        (of_security(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), PRIVILEGE),
        (of_container(securityContext={}), PRIVILEGE),
        (of_spec(securityContext={}), PRIVILEGE),
        (with_volume(hostPath={"path": "/"}), VOLUMES),
        (with_volume(secret={"secretName": "others"}), VOLUMES),
        (with_volume(persistentVolumeClaim={"claimName": "others"}), VOLUMES),
        (with_volume(configMap={"name": "others"}), VOLUMES),
        (of_container(envFrom=[{"secretRef": {"name": "others"}}]), VARIABLES),
        (with_variable(configMapKeyRef={"name": "others", "key": "a"}), VARIABLES),
    ],
)
def test_any_other_pod_is_refused(tenants: Tenants, change: Callable[[Pod], None], words: str) -> None:
    pod = plain()
    change(pod)
    answer = create(tenants, pod)
    assert answer.status == 422, answer.body
    assert words in answer.body["message"]


@pytest.mark.usefixtures("_prepared")
def test_a_driver_deletes_its_executors_and_no_other_pod(tenants: Tenants) -> None:
    server, path = tenants.one.server, f"/api/v1/namespaces/{tenants.one.namespace}/pods"
    foreign = {**plain(), "metadata": {"name": "foreign", "labels": {"app": "shop"}}}
    for pod in (plain(), foreign):
        assert server.request("POST", path, pod).accepted

    def delete(name: str, driver: str = f"{RUN}-driver") -> int:
        return server.request("DELETE", f"{path}/{name}?gracePeriodSeconds=0", user=account(tenants), pod=driver).status

    executor = f"{RUN}-exec-1"
    assert [delete("foreign"), delete(executor, "payments-ingest-1-driver"), delete(executor)] == [422, 422, 200]
    # Collections, as at the end of a run: a label selects the run's pods; without one, a foreign pod forbids it.
    assert server.request("POST", path, plain()).accepted
    assert server.request("DELETE", f"{path}?labelSelector=spark-role%3Dexecutor", user=account(tenants)).accepted
    assert server.request("DELETE", path, user=account(tenants)).status == 422
    assert server.request("DELETE", f"{path}/foreign?gracePeriodSeconds=0").accepted
