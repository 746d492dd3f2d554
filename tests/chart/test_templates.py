"""What the chart renders, without a cluster."""

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from messagestore_core.addresses import METADATA
from messagestore_operator.api import crd, parse_resource
from messagestore_operator.api.kinds import KINDS
from messagestore_operator.cluster.labels import run_labels
from messagestore_operator.decide.snapshot import RunRef
from messagestore_operator.settings import Settings, load
from support.helm import (
    CHART,
    IMAGES,
    KUBE_VERSION,
    NAMESPACE,
    RELEASE,
    REPOSITORY,
    SPARK_IMAGE,
    HelmError,
    helm,
    rendered,
    template,
)
from support.launches import stream

HERE = Path(__file__).parent
VALUES = sorted((HERE / "values").glob("*.yaml"))
RENEW = "RENEW_SNAPSHOTS"
each_values = pytest.mark.parametrize("values", VALUES, ids=lambda file: file.stem)


@each_values
def test_lint_finds_nothing(values: Path) -> None:
    said = helm("lint", "--strict", "--kube-version", KUBE_VERSION, *IMAGES, "--values", values, CHART)
    assert re.findall(r"\[(?:WARNING|ERROR)\].*", said) == []


@each_values
def test_the_objects_are_those_of_the_snapshot(values: Path) -> None:
    """Renew the snapshots with: RENEW_SNAPSHOTS=1 .venv/bin/pytest tests/chart/test_templates.py."""
    found = _without_definitions(template("--values", values))
    snapshot = HERE / "snapshots" / values.name
    if RENEW in os.environ:
        snapshot.write_text(found, encoding="utf-8")
    assert found == snapshot.read_text(encoding="utf-8"), f"if that is as it should be, run again with {RENEW}=1"


def _without_definitions(text: str) -> str:
    """The text without the chart's version, which each release changes, and the CRDs, which have their own test."""
    objects = [part for part in re.split(r"^---\n", text, flags=re.MULTILINE) if "templates/crds.yaml" not in part]
    chart = _chart()
    return "---\n".join(objects).replace(f"message-store-operator-{chart['version']}", "message-store-operator-VERSION")


def _chart() -> dict[str, Any]:
    chart: dict[str, Any] = YAML(typ="safe").load(CHART / "Chart.yaml")
    return chart


def test_the_charts_definitions_are_those_of_the_models() -> None:
    there = {file.name: file.read_text(encoding="utf-8") for file in (CHART / "files" / "crds").glob("*.yaml")}
    assert there == crd.files(), "the chart's definitions are stale: run `make crds`"


@pytest.mark.parametrize("keep", [True, False])
def test_definitions_are_rendered_as_they_are(keep: bool) -> None:
    found = rendered("--show-only", "templates/crds.yaml", "--set", f"crds.keep={str(keep).lower()}")
    assert [definition["metadata"].pop("annotations", {}) for definition in found] == [
        {"helm.sh/resource-policy": "keep"} if keep else {}
    ] * 3
    assert all(definition["metadata"].pop("labels")["app.kubernetes.io/instance"] == "store" for definition in found)
    assert found == sorted(
        map(crd.custom_resource_definition, crd.NAMES), key=lambda definition: str(definition["metadata"]["name"])
    )


def test_the_chart_has_the_projects_version() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    chart = _chart()
    assert (chart["version"], chart["appVersion"]) == (project["version"],) * 2


def test_a_catalogue_of_charts_finds_the_three_kinds_with_an_example_of_each() -> None:
    about = _chart()["annotations"]
    definitions = {file.stem: YAML(typ="safe").load(file) for file in (CHART / "files" / "crds").glob("*.yaml")}
    kinds = {
        one["spec"]["names"]["kind"]: (one["metadata"]["name"], one["spec"]["versions"][0]["name"])
        for one in definitions.values()
    }
    told = YAML(typ="safe").load(about["artifacthub.io/crds"])
    assert {one["kind"]: (one["name"], one["version"]) for one in told} == kinds
    examples = YAML(typ="safe").load(about["artifacthub.io/crdsExamples"])
    assert [one["kind"] for one in examples] == [one["kind"] for one in told]
    assert [KINDS[one["kind"]].model_validate(one).kind for one in examples] == [one["kind"] for one in examples]


REFUSED = [
    ("replica=2", "additional properties 'replica' not allowed"),
    ("image.tags=1", "additional properties 'tags' not allowed"),
    ("spark.driver.cpu=1", "additional properties 'cpu' not allowed"),
    ("replicas=-1", "'/replicas': minimum"),
    ("replicas=two", "'/replicas': got string, want integer"),
    ("watch.namespaces=billing", "'/watch/namespaces': got string, want array"),
    ("watch.namespaces={a,a}", "'/watch/namespaces': items at 0 and 1 are equal"),
    ("driver.serviceAccount.name=Driver", "'/driver/serviceAccount/name': 'Driver' does not match"),
    ("spark.executor.memory=4Gi", "'/spark/executor/memory': '4Gi' does not match"),
    ("spark.conf.a=1", "'/spark/conf/a': got number, want string"),
    ("image.digest=latest", "'/image/digest': 'latest' does not match"),
    ("image.pullPolicy=Sometimes", "'/image/pullPolicy': value must be one of"),
    ("metrics.port=70000", "'/metrics/port': maximum"),
    (r"commonLabels.helm\.sh/chart=mine", "'/commonLabels/helm.sh~1chart': false schema"),
    ("podDisruptionBudget.maxUnavailable=none", "'/podDisruptionBudget/maxUnavailable'"),
    ("test.uri=file:///tmp", "'/test/uri'"),
    ("test.uri=s3a://lake/test/", "'/test/uri'"),
]


@pytest.mark.parametrize(("value", "complaint"), REFUSED)
def test_wrong_values_are_refused_by_name(value: str, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        template("--set", value)


UNWORKABLE = [
    ("spark.executor.memory=64g", "spark.executor.memory: 64g is more than 32g, which tenancy.sizes.executor.memory"),
    ("spark.driver.memory=1t", "spark.driver.memory: 1t is more than 32g, which tenancy.sizes.driver.memory allows"),
    ("spark.executor.instances=51", "spark.executor.instances: 51 is more than 50"),
    ("spark.executor.cores=9", "spark.executor.cores: 9 is more than 8"),
    ("tenancy.sizes.driver.memory=1023m", "spark.driver.memory: 1g is more than 1023m"),
    ("replicas=3,leader.enabled=false", "'/replicas': maximum: got 3, want 1"),
    ("leader.enabled=false", "'/replicas': maximum: got 2, want 1"),
    ("metrics.service.enabled=false,metrics.serviceMonitor.enabled=true", "metrics.serviceMonitor needs metrics"),
    ("metrics.service.enabled=false,metrics.prometheusRule.enabled=true", "metrics.prometheusRule needs metrics"),
    ("health.port=8080", "health.port and metrics.port are both 8080"),
    ("leader.renewDeadline=15", "leader.duration must be more than leader.renewDeadline"),
    ("leader.retry=10", "leader.duration must be more than leader.renewDeadline, and that more than leader.retry"),
    ("test.uri=s3a://lake", "test.storage.credentialsSecretRef.name must name a Secret"),
    (
        "test.uri=s3a://lake,test.storage.credentialsSecretRef.name=a,test.namespace=a,watch.namespaces={b}",
        "test.namespace is a, which is none of watch.namespaces",
    ),
    ("image.repository=", "image.repository must name the repository that you pushed the image to"),
    ("spark.image.repository=", "spark.image.repository must name the repository that you pushed the image to"),
]


@pytest.mark.parametrize(("value", "complaint"), UNWORKABLE)
def test_values_with_which_the_operator_or_the_test_would_not_start_are_refused(value: str, complaint: str) -> None:
    with pytest.raises(HelmError, match=re.escape(complaint)):
        template("--set", value)


def test_values_at_their_bounds_are_taken() -> None:
    sizes = "spark.driver.memory=32768m,spark.executor.memory=32G,spark.executor.instances=50,spark.executor.cores=8"
    assert rendered("--set", f"{sizes},replicas=1,leader.enabled=false")


@pytest.mark.parametrize("namespace", ["no", "2026"])
def test_a_namespace_whose_name_is_a_word_of_yaml_stays_a_name(namespace: str) -> None:
    chosen = ("--set-string", f"watch.namespaces={{{namespace}}}", "--set", "networkPolicy.runs.enabled=true")
    found = [one["metadata"].get("namespace") for one in rendered(*chosen, "--namespace", namespace)]
    assert namespace in found
    assert {type(one) for one in found} == {str, type(None)}


def test_the_template_refuses_replicas_without_a_leader_by_itself() -> None:
    with pytest.raises(HelmError, match=r"replicas is 2, but without leader\.enabled only one replica may run"):
        template("--set", "leader.enabled=false", "--skip-schema-validation")


def test_the_charts_own_values_name_no_image() -> None:
    with pytest.raises(HelmError, match=r"image\.repository must name the repository"):
        helm("template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", KUBE_VERSION)


@pytest.mark.parametrize("policy", ["driver", "approval"])
def test_admission_policies_are_refused_before_kubernetes_1_30(policy: str) -> None:
    chosen = f"driver.admissionPolicy=false,{policy}.admissionPolicy=true"
    with pytest.raises(HelmError, match=rf"{policy}\.admissionPolicy needs Kubernetes 1\.30, and this is v1\.29\.0"):
        template("--kube-version", "1.29.0", "--set", chosen)
    assert rendered("--kube-version", "1.29.0", "--set", "driver.admissionPolicy=false")
    assert rendered("--kube-version", "1.30.0-gke.1", "--set", chosen)


@each_values
def test_no_role_has_a_wildcard_and_of_secrets_more_than_get(values: Path) -> None:
    roles = [one for one in rendered("--values", values) if one["kind"] in ("Role", "ClusterRole")]
    assert bool(roles) == (values.stem != "least")
    for role in roles:
        for rule in role["rules"]:
            words = {*rule.get("apiGroups", []), *rule.get("resources", []), *rule["verbs"]}
            assert not [word for word in words if "*" in word], (role["metadata"]["name"], rule)
            assert not words & {"escalate", "impersonate"}, (role["metadata"]["name"], rule)
            assert "secrets" not in words or rule["verbs"] == ["get"], (role["metadata"]["name"], rule)
            assert "bind" not in words or rule["resourceNames"], (role["metadata"]["name"], rule)


def test_where_labels_are_not_asked_for_no_role_names_secrets() -> None:
    found = rendered("--set", "tenancy.secrets.requireLabel=false")
    rules = [rule for one in found if one["kind"] in ("Role", "ClusterRole") for rule in one["rules"]]
    assert not [rule for rule in rules if "secrets" in rule["resources"]]


def test_chosen_namespaces_need_nothing_of_the_whole_cluster() -> None:
    found = rendered(
        "--values", HERE / "values" / "namespaces.yaml", "--set", "crds.enabled=false,driver.admissionPolicy=false"
    )
    assert {one["kind"] for one in found if "namespace" not in one["metadata"]} == set()
    accounts = {one["metadata"]["namespace"] for one in found if one["metadata"]["name"] == "message-store-driver"}
    assert accounts == {"billing", "shipping"}


def test_the_drivers_of_each_namespace_have_the_cloud_identity_that_is_given_to_it() -> None:
    given = {"annotations": {"role": "all"}, "namespaceAnnotations": {"billing": {"role": "bill"}, "shipping": {}}}
    values = ("--set-json", f"driver.serviceAccount={json.dumps(given)}")
    found = rendered("--set", "watch.namespaces={billing,shipping,sales}", *values)
    accounts = [
        one["metadata"]
        for one in found
        if one["kind"] == "ServiceAccount" and one["metadata"]["name"] == "message-store-driver"
    ]
    assert {one["namespace"]: one.get("annotations") for one in accounts} == {
        "billing": {"role": "bill"},
        "shipping": None,
        "sales": {"role": "all"},
    }


@each_values
def test_the_operator_takes_its_settings(values: Path, tmp_path: Path) -> None:
    load(_settings_file(tmp_path, "--values", values), {})


def test_values_say_what_the_operator_would_do_without(tmp_path: Path) -> None:
    """The values have the settings' defaults, except names with the release's name."""
    found = load(_settings_file(tmp_path), {}).to_dict()
    assert found["leader"].pop("lease") == "store-message-store-operator-leader"
    assert found["driver"].pop("clusterRole") == "store-message-store-operator-driver"
    assert found["spark"].pop("image") == SPARK_IMAGE
    own = Settings().to_dict()
    assert own["spark"].pop("image") == ""
    del own["leader"]["lease"]
    assert found == own


def _settings_file(folder: Path, *arguments: str | Path) -> Path:
    (config_map,) = rendered("--show-only", "templates/settings.yaml", *arguments)
    file = folder / "settings.yaml"
    file.write_text(config_map["data"]["settings.yaml"])
    return file


def test_every_value_is_in_the_schema_with_a_word_on_it() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = YAML(typ="safe").load(CHART / "values.yaml")
    assert _paths_of_values(values, schema) == _paths_of_schema(schema) - {"resources.claims"}


def _paths_of_schema(schema: dict[str, Any], path: str = "") -> set[str]:
    if path:
        assert schema["description"], path
    inner = schema.get("properties", {})
    # A chart that contains this one may share more.
    assert not inner or schema["additionalProperties"] is (path == "global"), path
    found = [_paths_of_schema(node, f"{path}.{name}".strip(".")) for name, node in inner.items()]
    return {path}.union(*found) - {""}


def _paths_of_values(values: Any, schema: dict[str, Any], path: str = "") -> set[str]:
    inner = schema.get("properties", {})
    found = [
        _paths_of_values(values[name], node, f"{path}.{name}".strip("."))
        for name, node in inner.items()
        if name in values
    ]
    return {path}.union(*found) - {""}


def test_changed_settings_replace_the_pod() -> None:
    assert _checksum() == _checksum("--set", "replicas=1")
    assert _checksum() != _checksum("--set", "spark.driver.cores=2")


def _checksum(*arguments: str) -> str:
    (deployment,) = rendered("--show-only", "templates/deployment.yaml", *arguments)
    checksum: str = deployment["spec"]["template"]["metadata"]["annotations"]["checksum/settings"]
    return checksum


@each_values
def test_every_object_is_labelled(values: Path) -> None:
    wanted = {"name", "instance", "version", "component", "part-of", "managed-by"}
    for one in rendered("--values", values):
        labels = one["metadata"]["labels"]
        assert {f"app.kubernetes.io/{name}" for name in wanted} | {"helm.sh/chart"} <= set(labels), one["metadata"]


@each_values
def test_every_object_and_the_operators_pod_have_the_common_labels_and_annotations(values: Path) -> None:
    common = {"commonLabels": {"example.org/common": "yes"}, "commonAnnotations": {"example.org/common": "yes"}}
    given = [f"--set-json={name}={json.dumps(value)}" for name, value in common.items()]
    monitored = ",".join(f"metrics.{one}.enabled=true" for one in ("service", "serviceMonitor", "dashboard"))
    found = rendered("--values", values, *given, "--set", monitored)
    (pod,) = [one["spec"]["template"] for one in found if one["kind"] == "Deployment"]
    for one in (*found, pod):
        assert one["metadata"]["labels"]["example.org/common"] == "yes", one["metadata"]
        assert one["metadata"]["annotations"]["example.org/common"] == "yes", one["metadata"]


def test_a_registry_that_charts_share_is_before_both_images() -> None:
    shared = {"imageRegistry": "mirror.example.org", "imagePullSecrets": [{"name": "mirror"}], "storageClass": "fast"}
    found = rendered(
        "--set-json", f"global={json.dumps(shared)}", "--set", "image.repository=operator,spark.image.repository=spark"
    )
    (deployment,) = [one for one in found if one["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"].startswith("mirror.example.org/operator:")
    assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    (settings,) = [one["data"]["settings.yaml"] for one in found if "settings.yaml" in one.get("data", {})]
    spark = YAML(typ="safe").load(settings)["spark"]
    assert (spark["image"].rpartition(":")[0], spark["imagePullSecrets"]) == ("mirror.example.org/spark", ["mirror"])


def test_where_all_namespaces_are_watched_those_with_a_network_policy_of_runs_are_named() -> None:
    with pytest.raises(HelmError, match=r"networkPolicy\.runs\.namespaces must name"):
        rendered("--set", "networkPolicy.runs.enabled=true")
    found = rendered("--set", "networkPolicy.runs.enabled=true,networkPolicy.runs.namespaces={billing}")
    (policy,) = [one for one in found if one["kind"] == "NetworkPolicy"]
    assert policy["metadata"]["namespace"] == "billing"


def test_a_network_policy_of_runs_is_about_every_pod_of_a_run_and_no_other() -> None:
    (policy,) = [
        one
        for one in rendered("--set", "networkPolicy.runs.enabled=true,watch.namespaces={billing}")
        if one["kind"] == "NetworkPolicy"
    ]
    selector = policy["spec"]["podSelector"]
    labels = run_labels(RunRef("billing", "orders-ingest-1", 1, "ingest"), stream())
    assert selector["matchLabels"].items() <= labels.items()
    assert {one["key"] for one in selector["matchExpressions"]} <= labels.keys()
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": selector}]}]
    blocked = [
        address for to in policy["spec"]["egress"][2]["to"] for address in to.get("ipBlock", {}).get("except", [])
    ]
    assert {"169.254.0.0/16", "fe80::/10", *map(str, METADATA)} == set(blocked)


TEST = "test.uri=s3a://lake/test,test.storage.credentialsSecretRef.name=lake-credentials"


@pytest.mark.parametrize(
    ("values", "namespace"),
    [((), NAMESPACE), (("watch.namespaces={billing,shipping}",), "billing"), (("test.namespace=other",), "other")],
)
def test_helm_tests_pod_runs_where_streams_are_served(values: tuple[str, ...], namespace: str) -> None:
    found = _test_objects("--set", ",".join([TEST, *values]))
    assert {one["kind"]: one["metadata"]["namespace"] for one in found} == dict.fromkeys(
        ("ServiceAccount", "Role", "RoleBinding", "Pod"), namespace
    )
    (steps,) = found[-1]["spec"]["containers"][0]["args"]
    resources = [one for step in json.loads(steps) for one in step["resources"]]
    assert {one["metadata"]["namespace"] for one in resources} == {namespace}
    for one in resources:
        parse_resource(one)


def test_without_a_bucket_there_is_no_test() -> None:
    assert _test_objects() == []


def _test_objects(*arguments: str) -> list[dict[str, Any]]:
    annotated = [(one, one["metadata"].get("annotations") or {}) for one in rendered(*arguments)]
    return [one for one, annotations in annotated if annotations.get("helm.sh/hook") == "test"]
