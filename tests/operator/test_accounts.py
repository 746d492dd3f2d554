"""The annotations of the drivers' account on a real API server, which knows who wrote each."""

from typing import Any

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.drivers import Drivers
from messagestore_operator.kube.client import KubeClient
from messagestore_operator.settings import DriverSettings
from support.apiserver import ApiServer
from support.kube import with_client

PATH = "/api/v1/namespaces/default/serviceaccounts/accounts-test"


def prepare(server: ApiServer, **settings: Any) -> dict[str, str]:
    """The annotations of the account once it is prepared with settings."""
    given = DriverSettings.model_validate({"serviceAccount": "accounts-test", "clusterRole": "drivers", **settings})

    async def scenario(client: KubeClient) -> None:
        await Drivers(client, Cache(), given).prepare("default")

    with_client(server, scenario)
    annotations: dict[str, str] = server.request("GET", PATH).body["metadata"].get("annotations", {})
    return annotations


def test_an_account_loses_only_the_annotations_that_former_settings_gave_it(apiserver: ApiServer) -> None:
    role, other = {"example.org/role": "all"}, {"example.org/other": "b"}
    owner = {"example.org/owner": "ann"}
    assert prepare(apiserver, annotations=role) == role
    account = apiserver.request("GET", PATH).body
    account["metadata"]["annotations"] |= owner
    assert apiserver.request("PUT", f"{PATH}?fieldManager=kubectl-annotate", account).accepted
    assert prepare(apiserver, annotations=role) == {**role, **owner}
    assert prepare(apiserver, annotations=other) == {**other, **owner}
    assert prepare(apiserver) == owner
    assert prepare(apiserver, namespaceAnnotations={"billing": role}) == owner
