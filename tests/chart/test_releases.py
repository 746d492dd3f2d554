"""Helm releases are installed and uninstalled on a real API server, and no data goes with them."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from messagestore_operator.api import KINDS
from support.apiserver import ApiServer
from support.helm import CHART, IMAGES, NAMESPACE, RELEASE, helm
from support.judges import url
from support.resources import all_resources, smallest_stream
from support.waiting import wait_until

Document = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def release(apiserver: ApiServer, tmp_path: Path) -> Iterator[list[str]]:
    """Helm's arguments for the cluster and namespace; after the test the chart is removed."""
    where = ["--kubeconfig", str(apiserver.kubeconfig(tmp_path)), "--namespace", NAMESPACE]
    yield where
    helm("uninstall", RELEASE, "--ignore-not-found", *where)
    for definition in _definitions(apiserver):
        apiserver.request("DELETE", f"{DEFINITIONS}/{definition}")
    _wait_until(lambda: not _definitions(apiserver))


def _definitions(apiserver: ApiServer) -> list[str]:
    names = [item["metadata"]["name"] for item in apiserver.request("GET", DEFINITIONS).body["items"]]
    return [name for name in names if name.endswith(".messagestore.dev")]


def test_an_upgrade_touches_no_resource(apiserver: ApiServer, release: list[str], tmp_path: Path) -> None:
    helm("install", RELEASE, _previous_chart(tmp_path), *IMAGES, *release)
    _wait_until_served(apiserver)
    before = [_make(apiserver, document) for document in all_resources()]
    assert not _knows_run_history_limit(apiserver)

    helm("upgrade", RELEASE, CHART, *IMAGES, *release)
    assert [_read(apiserver, one) for one in all_resources()] == before
    assert _knows_run_history_limit(apiserver)

    helm("rollback", RELEASE, "1", *release)
    assert [_read(apiserver, one) for one in all_resources()] == before


def _previous_chart(folder: Path) -> Path:
    """The chart as an earlier release may have been: another version, one field less."""
    chart = folder / CHART.name
    shutil.copytree(CHART, chart)
    with _changed(chart / "Chart.yaml") as about:
        about |= {"version": "0.0.1", "appVersion": "0.0.1"}
    with _changed(chart / "files" / "crds" / "messagestreams.yaml") as definition:
        del _stream_spec(definition)["runHistoryLimit"]
    return chart


@contextmanager
def _changed(file: Path) -> Iterator[Document]:
    yaml = YAML()
    content = yaml.load(file)
    yield content
    with file.open("w") as stream:
        yaml.dump(content, stream)


def _stream_spec(definition: Document) -> Document:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    fields: Document = schema["properties"]["spec"]["properties"]
    return fields


def _knows_run_history_limit(apiserver: ApiServer) -> bool:
    return "runHistoryLimit" in _stream_spec(
        apiserver.request("GET", f"{DEFINITIONS}/messagestreams.messagestore.dev").body
    )


def _wait_until_served(apiserver: ApiServer) -> None:
    _wait_until(lambda: all(apiserver.request("GET", url(kind)).accepted for kind in KINDS))


def _wait_until(done: Callable[[], bool]) -> None:
    wait_until(done, 30, lambda: "done")


def _make(apiserver: ApiServer, document: Document) -> Document:
    # An older release drops the fields that it doesn't know.
    path = url(document["kind"]).replace("Strict", "Ignore")
    answer = apiserver.request("POST", path, document)
    assert answer.accepted, answer.body
    return _unversioned(answer.body)


def _read(apiserver: ApiServer, document: Document) -> Document:
    return _unversioned(apiserver.request("GET", url(document["kind"], document["metadata"]["name"])).body)


def _unversioned(document: Document) -> Document:
    """The resource without the changes from a new field with a default."""
    spec = {name: value for name, value in document["spec"].items() if name != "runHistoryLimit"}
    return {"metadata": document["metadata"], "spec": spec}


def test_uninstalling_keeps_definitions_and_resources(apiserver: ApiServer, release: list[str]) -> None:
    helm("install", RELEASE, CHART, *IMAGES, *release)
    _wait_until_served(apiserver)
    stream = _make(apiserver, smallest_stream())
    assert "These resources were kept" in helm("uninstall", RELEASE, *release)
    assert len(_definitions(apiserver)) == 3
    assert _read(apiserver, smallest_stream()) == stream

    helm("install", RELEASE, CHART, *IMAGES, *release)
    assert _read(apiserver, smallest_stream()) == stream


def test_uninstalling_removes_definitions_where_a_value_asks_for_it(apiserver: ApiServer, release: list[str]) -> None:
    helm("install", RELEASE, CHART, "--set", "crds.keep=false", *IMAGES, *release)
    _wait_until_served(apiserver)
    helm("uninstall", RELEASE, *release)
    _wait_until(lambda: not _definitions(apiserver))


def test_the_notes_say_what_is_left_to_do(apiserver: ApiServer, release: list[str]) -> None:
    said = _notes(release)
    assert "no SparkApplication kind" in said
    assert "create serviceaccount" not in said
    assert "`helm test` has nothing to test: test.uri names no folder" in said
    assert "deletes all MessageStreams" in _notes(release, "--set", "crds.keep=false")
    assert "apply crds/" in _notes(release, "--set", "crds.enabled=false")
    tested = _notes(release, "--set", "test.uri=s3a://lake,test.storage.credentialsSecretRef.name=lake-credentials")
    assert f"helm test {RELEASE}" in tested
    identity = ("--set", "tenancy.storage.requireCredentials=false")
    assert "all that the identity of the runs' pods can" in _notes(release, *identity)
    assert "all that the identity" not in said + _notes(
        release, *identity, "--set", "tenancy.storage.prefixes.*={s3a://a}"
    )
    shared = (*identity, "--set", "tenancy.storage.prefixes.*={s3a://a},driver.serviceAccount.annotations.role=all")
    assert "gives all namespaces one cloud identity" in _notes(release, *shared)
    one_namespace = _notes(release, *shared, "--set", "watch.namespaces={billing}")
    assert "one cloud identity" not in said + one_namespace
    without_accounts = _notes(release, "--set", "driver.serviceAccount.create=false")
    assert "create serviceaccount message-store-driver" in without_accounts
    assert f"--clusterrole={RELEASE}-message-store-operator-driver" in without_accounts
    chosen = _notes(release, "--set", "driver.serviceAccount.create=false,watch.namespaces={billing,shipping}")
    assert "create it in billing, shipping." in chosen


def _notes(release: list[str], *arguments: str) -> str:
    return helm("install", RELEASE, CHART, "--dry-run=server", *IMAGES, *arguments, *release).partition("NOTES:")[2]
