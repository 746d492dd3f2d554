"""The drivers' account lets a driver create and delete executors of its run, and no other pod."""

from collections.abc import Callable
from typing import Any

import pytest

from support.apiserver import Answer
from support.executors import executor_pod
from support.helm import SPARK_IMAGE
from support.launches import launch, stream
from support.operators import eventually
from support.tenants import Tenants

Pod = dict[str, Any]
RUN = "orders-ingest-1"
WEIGHTED = "spark.placement.executor.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0]"
ZONED = {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}
AFFINITY = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": ZONED}]}}


@pytest.fixture(scope="module")
def values() -> tuple[str, ...]:
    return (
        "spark.nodeSelector.pool=batch",
        "spark.tolerations[0].key=batch,spark.tolerations[0].operator=Exists",
        "spark.batchScheduler=volcano,spark.batchSchedulerOptions.priorityClassName=batch",
        "spark.placement.executor.nodeSelector.disk=ssd,spark.placement.executor.schedulerName=packing",
        "spark.placement.executor.tolerations[0].key=disk,spark.placement.executor.tolerations[0].operator=Exists",
        "spark.placement.executor.priorityClassName=low,spark.scratchStorageClass=fast",
        "tenancy.images[0]=registry.example.org/team/*,tenancy.images[1]=registry.example.org:*",
        f"{WEIGHTED}.weight=1,{WEIGHTED}.preference.matchExpressions[0].key=zone,"
        f"{WEIGHTED}.preference.matchExpressions[0].operator=Exists",
    )


@pytest.fixture(scope="module")
def _prepared(tenants: Tenants) -> None:
    """A namespace that has had a run and so has the drivers' account; the API server applies the rules."""
    assert tenants.one.stream("first").accepted
    eventually(lambda: tenants.launched(tenants.one), of=tenants.operator)
    bare = {**plain(), "spec": {"containers": [{"name": "a", "image": "a"}]}}
    eventually(lambda: create(tenants, bare).status == 422)
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name in ("batch", "urgent", "low"):
        assert tenants.one.server.request("POST", classes, {"metadata": {"name": name}, "value": 1}).accepted
    runtime = {"metadata": {"name": "kata"}, "handler": "kata"}
    assert tenants.one.server.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime).accepted


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
@pytest.mark.parametrize("ending", [":0.0.1", f"@sha256:{'a' * 64}"])
def test_a_run_from_before_an_upgrade_gets_executors_of_its_own_release(tenants: Tenants, ending: str) -> None:
    pod = plain()
    of_container(image=SPARK_IMAGE.rpartition(":")[0] + ending)(pod)
    answer = create(tenants, pod)
    assert answer.accepted, answer.body


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("image", ["registry.example.org/team/spark:1", "registry.example.org:1"])
def test_an_executor_may_have_an_image_of_the_settings(tenants: Tenants, image: str) -> None:
    pod = plain()
    of_container(image=image)(pod)
    answer = create(tenants, pod)
    assert answer.accepted, answer.body


@pytest.mark.usefixtures("_prepared")
@pytest.mark.parametrize("audience", ["sts.amazonaws.com", "pods.eks.amazonaws.com", "api://AzureADTokenExchange"])
def test_an_executor_may_have_a_token_for_a_cloud(tenants: Tenants, audience: str) -> None:
    """Clouds mount it with a webhook, for the identity of the account."""
    pod = plain()
    with_token(audience=audience)(pod)
    answer = create(tenants, pod)
    assert answer.accepted, answer.body


@pytest.mark.usefixtures("_prepared")
def test_an_executor_may_have_what_the_settings_and_the_cluster_give_it(tenants: Tenants) -> None:
    pod = plain()
    keys = ("not-ready", "unreachable")
    tolerated = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"} for key in keys]
    stop = {"preStop": {"exec": {"command": ["/opt/decom.sh"]}}}
    pod["spec"] |= {
        "nodeSelector": {"pool": "batch"},
        "tolerations": [
            {"key": "batch", "operator": "Exists"},
            *({**one, "tolerationSeconds": 300} for one in tolerated),
        ],
        "schedulerName": "volcano",
        "priorityClassName": "batch",
        "imagePullSecrets": [{"name": "registry"}],
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
    }
    pod["spec"]["containers"][0]["lifecycle"] = stop
    answer = create(tenants, pod)
    assert answer.accepted, answer.body


@pytest.mark.usefixtures("_prepared")
def test_an_executor_may_have_the_place_that_the_settings_give_executors_alone(tenants: Tenants) -> None:
    pod, claim = plain(), {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    claim |= {"resources": {"requests": {"storage": "1Gi"}}}
    pod["spec"] |= {
        "nodeSelector": {"pool": "batch", "disk": "ssd"},
        "tolerations": [{"key": "disk", "operator": "Exists"}],
        "schedulerName": "packing",
        "priorityClassName": "low",
        "affinity": AFFINITY,
    }
    pod["spec"]["volumes"].append({"name": "spills", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}})
    answer = create(tenants, pod)
    assert answer.accepted, answer.body
    claim["storageClassName"] = "archive"
    assert create(tenants, pod).status == 422


@pytest.mark.usefixtures("_prepared")
def test_a_token_that_is_bound_to_no_pod_makes_nothing(tenants: Tenants) -> None:
    answer = create(tenants, plain(), driver="")
    assert (answer.status, BELONGS in answer.body["message"]) == (422, True), answer.body


def of_spec(**fields: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"].update(fields)


def of_container(**fields: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["containers"][0].update(fields)


def of_security(**fields: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["containers"][0]["securityContext"].update(fields)


def with_volume(**volume: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["volumes"].append({"name": "more", **volume})


def with_token(**token: str) -> Callable[[Pod], None]:
    return with_volume(projected={"sources": [{"serviceAccountToken": {"path": "token", **token}}]})


def of_pods_security(**fields: Any) -> Callable[[Pod], None]:
    return lambda pod: pod["spec"]["securityContext"].update(fields)


def with_amount(name: str) -> Callable[[Pod], None]:
    return lambda pod: [
        pod["spec"]["containers"][0]["resources"][kind].update({name: "1"}) for kind in ("limits", "requests")
    ]


def annotated(name: str, value: str) -> Callable[[Pod], None]:
    return lambda pod: pod["metadata"]["annotations"].update({name: value})


def unmasked(pod: Pod) -> None:
    pod["spec"]["hostUsers"] = False
    pod["spec"]["containers"][0]["securityContext"]["procMount"] = "Unmasked"


def claimed(pod: Pod) -> None:
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "gpu"}]
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]


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


MORE = {"name": "more", "image": SPARK_IMAGE}
OWN, BELONGS, NODE = "only executors of its run", "belongs to the driver", "must not use its node"
ONE, TOKEN, PRIVILEGE = "is one container", "no token", "no privilege"
VOLUMES, VARIABLES = "volumes are empty folders", "variables are values"
PLACE, MASKED, OTHER = "has the node selector, tolerations", "default seccomp profile and masked", "has no spec."
STOP, PROFILE = "nothing but a command of its own", "no annotation that chooses"
METADATA = {"httpGet": {"host": "169.254.169.254", "port": 80}}
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
SYSTEM = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}


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
        (with_token(), TOKEN),
        (with_token(audience="https://kubernetes.default.svc"), TOKEN),
        (with_token(audience="vault"), TOKEN),
        (of_container(image="registry.example.org/theirs:1"), ONE),
        (of_container(image=SPARK_IMAGE.replace(":", "-theirs:")), ONE),
        (of_container(image="registry.example.org:5000/team/spark:1"), ONE),
        (lambda pod: pod["spec"]["containers"].append(MORE), ONE),
        (of_spec(initContainers=[MORE]), ONE),
        (of_spec(hostNetwork=True), NODE),
        (of_spec(hostPID=True), NODE),
        (of_spec(hostIPC=True), NODE),
        (of_spec(nodeName="control-plane"), NODE),
        (of_spec(nodeSelector={"node-role.kubernetes.io/control-plane": ""}), PLACE),
        (of_spec(nodeSelector={"pool": "others"}), PLACE),
        (of_spec(tolerations=[SYSTEM]), PLACE),
        (of_spec(tolerations=[{"operator": "Exists"}]), PLACE),
        (of_spec(tolerations=[{"key": "batch", "value": "a"}]), PLACE),
        (of_spec(schedulerName="other"), PLACE),
        (of_spec(priorityClassName="system-node-critical"), PLACE),
        (of_spec(priorityClassName="urgent"), PLACE),
        (of_spec(affinity={"podAffinity": {}}), PLACE),
        (of_spec(affinity={**AFFINITY, "podAffinity": {}}), PLACE),
        (of_spec(topologySpreadConstraints=[SPREAD]), OTHER + "topologySpreadConstraints"),
        (of_spec(runtimeClassName="kata"), OTHER + "runtimeClassName"),
        (of_container(ports=[{"containerPort": 80, "hostPort": 80}]), NODE),
        (of_security(allowPrivilegeEscalation=True), PRIVILEGE),
        (of_security(runAsNonRoot=False), PRIVILEGE),
        (of_security(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), PRIVILEGE),
        (of_container(securityContext={}), PRIVILEGE),
        (of_spec(securityContext={}), PRIVILEGE),
        (of_security(runAsUser=0), PRIVILEGE),
        (of_security(runAsGroup=0), PRIVILEGE),
        (of_pods_security(runAsUser=0), PRIVILEGE),
        (of_pods_security(runAsGroup=0), PRIVILEGE),
        (of_pods_security(fsGroup=0), PRIVILEGE),
        (without("spec", "securityContext", "runAsUser"), PRIVILEGE),
        (without("spec", "securityContext", "runAsGroup"), PRIVILEGE),
        (without("spec", "securityContext", "seccompProfile"), MASKED),
        (of_pods_security(seccompProfile={"type": "Unconfined"}), MASKED),
        (of_security(seccompProfile={"type": "Unconfined"}), MASKED),
        (of_security(seccompProfile={"type": "Localhost", "localhostProfile": "a.json"}), MASKED),
        (unmasked, MASKED),
        (of_pods_security(supplementalGroups=[0]), OTHER + "securityContext.supplementalGroups"),
        (
            of_pods_security(sysctls=[{"name": "kernel.shm_rmid_forced", "value": "0"}]),
            OTHER + "securityContext.sysctls",
        ),
        (of_pods_security(seLinuxOptions={"type": "spc_t"}), OTHER + "securityContext.seLinuxOptions"),
        (of_security(seLinuxOptions={"user": "a"}), OTHER + "containers.securityContext.seLinuxOptions"),
        (of_pods_security(appArmorProfile={"type": "Unconfined"}), OTHER + "securityContext.appArmorProfile"),
        (of_security(appArmorProfile={"type": "Unconfined"}), OTHER + "containers.securityContext.appArmorProfile"),
        (annotated("container.apparmor.security.beta.kubernetes.io/spark-kubernetes-executor", "unconfined"), PROFILE),
        (lambda pod: pod["metadata"].update(finalizers=["example.org/stays"]), PROFILE),
        (claimed, OTHER + "resourceClaims"),
        (with_amount("example.org/device"), OTHER + "containers.resources: example.org/device"),
        (of_container(livenessProbe=METADATA), OTHER + "containers.livenessProbe"),
        (of_container(readinessProbe=METADATA), OTHER + "containers.readinessProbe"),
        (of_container(startupProbe=METADATA), OTHER + "containers.startupProbe"),
        (of_container(lifecycle={"preStop": METADATA}), STOP),
        (of_container(lifecycle={"postStart": METADATA}), STOP),
        (of_container(command=["/bin/sh"]), OTHER + "containers.command"),
        (of_container(volumeDevices=[{"name": "tmp", "devicePath": "/dev/a"}]), ""),
        (of_spec(dnsPolicy="Default"), STOP),
        (of_spec(dnsPolicy="None", dnsConfig={"nameservers": ["192.0.2.1"]}), STOP),
        (of_spec(hostAliases=[{"ip": "192.0.2.1", "hostnames": ["objects.example.org"]}]), OTHER + "hostAliases"),
        (of_spec(shareProcessNamespace=True), OTHER + "shareProcessNamespace"),
        (with_volume(projected={"sources": [{"secret": {"name": "others"}}]}), VOLUMES),
        (with_volume(projected={"sources": [{"configMap": {"name": "others"}}]}), VOLUMES),
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
    refused = [delete("foreign"), delete(executor, "payments-ingest-1-driver"), delete(executor, "")]
    assert [*refused, delete(executor)] == [422, 422, 422, 200]
    # Collections, as at the end of a run: a label selects the run's pods; without one, a foreign pod forbids it.
    assert server.request("POST", path, plain()).accepted

    def delete_all(selector: str) -> int:
        return server.request("DELETE", path + selector, user=account(tenants), pod=f"{RUN}-driver").status

    assert [delete_all("?labelSelector=spark-role%3Dexecutor"), delete_all("")] == [200, 422]
    assert server.request("DELETE", f"{path}/foreign?gracePeriodSeconds=0").accepted
