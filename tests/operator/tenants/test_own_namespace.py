"""A tenant is served in the own namespace, sees no other, and may do nothing there but edit the three kinds."""

import pytest

from support.tenants import Tenants


def test_a_tenants_stream_is_served(tenants: Tenants) -> None:
    assert tenants.one.stream("served", trigger={"interval": "PT1H"}).accepted
    assert tenants.one.ready("served", of=tenants.operator)["totals"]["stored"] == 2
    assert tenants.operator.get("/readyz")[0] == 200


def test_what_is_refused_is_told_on_the_resource_and_by_an_event(tenants: Tenants) -> None:
    assert tenants.one.stream("refused", filter={"where": "java_method('java.lang.System', 'exit', 1) = 1"}).accepted
    told = tenants.one.told("refused", "PredicateRefused", of=tenants.operator)
    assert told.words.startswith("spec.filter.where: ")
    assert "PredicateRefused" in told.said
    assert not [name for name in tenants.launched(tenants.one) if name.startswith("refused")]


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/namespaces/{own}/secrets",
        "/api/v1/namespaces/{own}/pods",
        "/api/v1/namespaces/{own}/configmaps",
        "/api/v1/namespaces/{own}/serviceaccounts",
        "/apis/sparkoperator.k8s.io/v1beta2/namespaces/{own}/sparkapplications",
        "/apis/messagestore.dev/v1alpha1/namespaces/{other}/messagestreams",
        "/apis/coordination.k8s.io/v1/namespaces/{operators}/leases",
    ],
)
def test_beyond_that_the_tenant_sees_nothing(tenants: Tenants, path: str) -> None:
    names = {"own": tenants.one.namespace, "other": tenants.other.namespace}
    answer = tenants.one.request("GET", path.format(operators=tenants.chart.settings["namespace"], **names))
    assert answer.status == 403
