"""A real API server accepts what the chart renders."""

from pathlib import Path

import pytest

from support.apiserver import ApiServer
from support.charts import create
from support.helm import NAMESPACE, rendered

VALUES = sorted((Path(__file__).parent / "values").glob("*.yaml"))


@pytest.mark.parametrize("values", VALUES, ids=lambda file: file.stem)
def test_every_object_is_accepted(apiserver: ApiServer, values: Path) -> None:
    unknown = []
    for document in rendered("--values", values):
        try:
            answer = create(apiserver, document)
        except LookupError:
            unknown.append(document["kind"])
            continue
        assert answer.accepted, (document["kind"], document["metadata"]["name"], answer.body)
        assert not answer.body.get("warnings")
    # Kinds of the Prometheus operator, which is not installed.
    assert unknown == (["PrometheusRule", "ServiceMonitor"] if values.stem == "everything" else [])


def test_the_pod_is_restricted(apiserver: ApiServer) -> None:
    (deployment,) = rendered("--show-only", "templates/deployment.yaml")
    pod = {"apiVersion": "v1", "kind": "Pod", **deployment["spec"]["template"]}
    pod["metadata"] |= {"name": "operator", "namespace": NAMESPACE}
    assert create(apiserver, pod).accepted
    del pod["spec"]["containers"][0]["securityContext"]["capabilities"]
    refused = create(apiserver, pod)
    assert 'violates PodSecurity "restricted' in refused.body["message"]
