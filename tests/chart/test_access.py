"""Who may do what, by the answers of a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest

from support.apiserver import Answer, ApiServer
from support.helm import CHART, IMAGES, NAMESPACE, RELEASE, helm

OPERATOR = f"system:serviceaccount:{NAMESPACE}:{RELEASE}-message-store-operator"
OF_ALL = f"system:serviceaccount:{NAMESPACE}:all-message-store-operator"
DRIVER = "system:serviceaccount:billing:message-store-driver"
STREAMS, SPARK, ROLES = "messagestore.dev", "sparkoperator.k8s.io", "rbac.authorization.k8s.io"
ALLOWED = [
    (OPERATOR, "billing", STREAMS, "messagestreams", "watch"),
    (OPERATOR, "billing", STREAMS, "replayjobs/status", "patch"),
    (OPERATOR, "billing", STREAMS, "replayjobs", "delete"),
    (OPERATOR, "billing", SPARK, "sparkapplications", "create"),
    (OPERATOR, "billing", "", "configmaps", "create"),
    (OPERATOR, "billing", ROLES, "rolebindings", "create"),
    (OPERATOR, "billing", "", "pods", "list"),
    (OPERATOR, "billing", "", "events", "create"),
    (OPERATOR, "billing", "", "events", "list"),
    (OPERATOR, "billing", "", "secrets", "get"),
    (OPERATOR, NAMESPACE, "coordination.k8s.io", "leases", "update"),
    (OPERATOR, NAMESPACE, "coordination.k8s.io", "leases", "delete"),
    (DRIVER, "billing", "", "pods", "create"),
    (DRIVER, "billing", "", "pods", "deletecollection"),
    (DRIVER, "billing", "", "pods", "watch"),
]
DENIED = [
    (OPERATOR, "billing", "", "secrets", "list"),
    (OPERATOR, "billing", "", "secrets", "watch"),
    (OPERATOR, "default", "", "secrets", "get"),
    (OPERATOR, "billing", STREAMS, "messagestreams", "create"),
    (OPERATOR, "billing", STREAMS, "messagestreams", "delete"),
    (OPERATOR, "billing", STREAMS, "retentionpolicies", "delete"),
    (OPERATOR, "billing", "", "pods", "create"),
    (OPERATOR, "billing", "", "pods/exec", "create"),
    (OPERATOR, "billing", "coordination.k8s.io", "leases", "update"),
    (OPERATOR, "shipping-not", STREAMS, "messagestreams", "get"),
    (OPERATOR, "default", "", "events", "list"),
    (OPERATOR, "billing", "", "serviceaccounts", "create"),
    (OPERATOR, "billing", ROLES, "roles", "delete"),
    (OPERATOR, "billing", ROLES, "roles", "patch"),
    (OPERATOR, "billing", ROLES, "rolebindings", "patch"),
    (OPERATOR, "billing", SPARK, "sparkapplications", "patch"),
    (OPERATOR, NAMESPACE, "", "configmaps", "get"),
    (DRIVER, "billing", "", "configmaps", "get"),
    (DRIVER, "billing", "", "configmaps", "create"),
    (DRIVER, "billing", "", "configmaps", "patch"),
    (DRIVER, "billing", "", "secrets", "get"),
    (DRIVER, "billing", STREAMS, "messagestreams", "get"),
    (DRIVER, "shipping", "", "pods", "get"),
    (DRIVER, "billing", ROLES, "roles", "create"),
]


@pytest.fixture(scope="module", autouse=True)
def _installed(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One release for two namespaces, and one for all."""
    where = ["--kubeconfig", str(apiserver.kubeconfig(tmp_path_factory.mktemp("kube"))), "--namespace", NAMESPACE]
    helm("install", RELEASE, CHART, *where, *IMAGES, "--set", "watch.namespaces={billing,shipping},crds.keep=false")
    helm("install", "all", CHART, *where, *IMAGES, "--set", "crds.enabled=false")
    yield
    helm("uninstall", RELEASE, "all", *where)


@pytest.mark.parametrize(
    ("allowed", "account", "namespace", "group", "resource", "verb"),
    [(True, *one) for one in ALLOWED] + [(False, *one) for one in DENIED],
)
def test_an_account_may_do_what_it_needs_and_nothing_else(
    apiserver: ApiServer,
    allowed: bool,
    account: str,
    namespace: str,
    group: str,
    resource: str,
    verb: str,
) -> None:
    name, _, subresource = resource.partition("/")
    asked = {"namespace": namespace, "group": group, "resource": name, "subresource": subresource, "verb": verb}
    review = {"spec": {"user": account, "resourceAttributes": asked}}
    answer = apiserver.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    assert answer.body["status"].get("allowed", False) is allowed, answer.body["status"]


def test_the_operator_sees_the_namespaces_that_it_serves_and_no_other(apiserver: ApiServer) -> None:
    found = [apiserver.request("GET", f"/api/v1/namespaces/{name}", user=OPERATOR) for name in ("billing", "default")]
    assert [answer.status for answer in found] == [200, 403]


REPORTS = "message-store-driver-reports"


def test_the_operator_grants_drivers_their_reports_and_no_more(apiserver: ApiServer) -> None:
    """The creator of a Role must have its rights: the operator can grant only this Role's."""
    report = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["run-1"], "verbs": ["get", "patch"]}
    assert _grant(apiserver, report).accepted
    refused = _grant(apiserver, {**report, "resources": ["secrets"]})
    assert (refused.status, "is attempting to grant RBAC permissions" in refused.body["message"]) == (403, True)


def test_the_operator_changes_the_role_of_reports_and_no_other(apiserver: ApiServer) -> None:
    change = {"metadata": {"labels": {"changed": "true"}}}
    roles = f"/apis/{ROLES}/v1/namespaces/billing/roles"
    asked = [
        apiserver.request("PATCH", f"{roles}/{name}", change, "application/merge-patch+json", OPERATOR).status
        for name in (REPORTS, f"{RELEASE}-message-store-operator-driver")
    ]
    # The first does not exist yet; for the other, the API server does not say whether it exists.
    assert asked == [404, 403]


def _grant(apiserver: ApiServer, rule: dict[str, Any]) -> Answer:
    role = {"apiVersion": f"{ROLES}/v1", "kind": "Role", "metadata": {"name": REPORTS}, "rules": [rule]}
    path = f"/apis/{ROLES}/v1/namespaces/billing/roles?dryRun=All"
    return apiserver.request("POST", path, role, user=OPERATOR)


def test_where_all_is_watched_the_operator_gives_drivers_their_role_and_no_other(apiserver: ApiServer) -> None:
    assert _bind(apiserver, "all-message-store-operator-driver").accepted
    refused = _bind(apiserver, "cluster-admin")
    assert (refused.status, "is attempting to grant RBAC permissions" in refused.body["message"]) == (403, True)


def _bind(apiserver: ApiServer, role: str) -> Answer:
    binding = {
        "apiVersion": f"{ROLES}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "drivers"},
        "roleRef": {"apiGroup": ROLES, "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "message-store-driver", "namespace": "default"}],
    }
    path = f"/apis/{ROLES}/v1/namespaces/default/rolebindings?dryRun=All"
    return apiserver.request("POST", path, binding, user=OF_ALL)
