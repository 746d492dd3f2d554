"""Applied manifests stay as applied: a comparison finds no drift, and applying again changes nothing."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from messagestore_operator.api import KINDS, parse_resource
from support.apiserver import Answer, ApiServer
from support.judges import delete, url
from support.resource_states import states
from support.resources import all_resources, redrive

Document = dict[str, Any]

REPOSITORY = Path(__file__).parents[2]
MERGE = "application/merge-patch+json"
SERVER_SIDE = "application/apply-patch+yaml"


def _manifests() -> list[tuple[str, Document]]:
    """Every resource of the examples, and generated ones that together have every field."""
    found = [(f"generated-{one['metadata']['name']}", one) for one in all_resources()]
    for file in sorted((REPOSITORY / "examples").rglob("*.yaml")):
        if "testdata" not in file.parts:
            documents = YAML(typ="safe", pure=True).load_all(file)
            ours = [one for one in documents if one and one.get("kind") in KINDS]
            found += [(f"{file.relative_to(REPOSITORY / 'examples')}-{one['metadata']['name']}", one) for one in ours]
    return found


MANIFESTS = _manifests()


@pytest.fixture(params=[one for _, one in MANIFESTS], ids=[name for name, _ in MANIFESTS])
def manifest(request: pytest.FixtureRequest, apiserver: ApiServer) -> Iterator[Document]:
    """A manifest as in Git: without a status or a namespace."""
    document: Document = deepcopy(request.param)
    document.pop("status", None)
    document["metadata"]["namespace"] = "default"
    if document["spec"].get("select", {}).get("limit", 0) is None:
        del document["spec"]["select"]["limit"]
    yield document
    delete(apiserver, document)


def _apply(apiserver: ApiServer, document: Document) -> Document:
    """Server-side apply, as by Argo CD and Flux."""
    path = url(document["kind"], document["metadata"]["name"], "&fieldManager=gitops")
    return _accepted(apiserver.request("PATCH", path, document, SERVER_SIDE))


def _accepted(answer: Answer) -> Document:
    assert answer.accepted, answer.body
    return answer.body


def _where(document: Document) -> str:
    return url(document["kind"], document["metadata"]["name"])


def test_an_applied_manifest_comes_back_unchanged_but_for_defaults(apiserver: ApiServer, manifest: Document) -> None:
    """Given values are unchanged, and added values are defaults that the models also have."""
    live = _apply(apiserver, manifest)
    assert _changed(manifest["spec"], live["spec"]) == []
    assert live["spec"] == parse_resource(manifest).to_dict()["spec"]


def _changed(given: Any, live: Any, path: str = "spec") -> list[str]:
    """The paths where the live value differs from the given one."""
    if isinstance(given, dict) and isinstance(live, dict):
        return [found for name, value in given.items() for found in _changed(value, live.get(name), f"{path}.{name}")]
    if isinstance(given, list) and isinstance(live, list) and len(given) == len(live):
        pairs = enumerate(zip(given, live, strict=True))
        return [found for at, (one, other) in pairs for found in _changed(one, other, f"{path}[{at}]")]
    return [] if given == live else [f"{path}: {given!r} became {live!r}"]


def test_applying_again_does_nothing(apiserver: ApiServer, manifest: Document) -> None:
    _apply(apiserver, manifest)
    before = _look_at(apiserver, manifest)
    assert _apply(apiserver, manifest) == before
    assert _accepted(apiserver.request("PATCH", _where(manifest), manifest, MERGE)) == before
    replaced = apiserver.request("PUT", _where(manifest), {**manifest, "metadata": before["metadata"]})
    assert _accepted(replaced)["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def _look_at(apiserver: ApiServer, manifest: Document) -> Document:
    """Write a status, as the operator does first; before that, the status is only a default that is not stored."""
    place = url(manifest["kind"], f"{manifest['metadata']['name']}/status")
    return _accepted(apiserver.request("PATCH", place, {"status": {"observedGeneration": 1}}, MERGE))


def test_a_null_is_refused_by_name(apiserver: ApiServer) -> None:
    """Server-side apply refuses a null; create and client-side apply drop it."""
    document = redrive()
    path = url(document["kind"], document["metadata"]["name"], "&fieldManager=gitops")
    refused = apiserver.request("PATCH", path, document, SERVER_SIDE)
    assert "spec.select.limit" in {field for field, _ in refused.causes}


@pytest.mark.parametrize("kind", KINDS)
def test_writes_of_the_operator_are_no_drift(apiserver: ApiServer, kind: str) -> None:
    """The operator's status, finalizer and annotations stay when the manifest is applied again, without a conflict."""
    (state,) = [one for one in states() if one.kind == kind and one.name in ("idle", "purged", "succeeded")]
    manifest = {name: state.document[name] for name in ("apiVersion", "kind", "spec")}
    manifest["metadata"] = {"name": state.document["metadata"]["name"], "namespace": "default"}
    try:
        _apply(apiserver, manifest)
        own = {"finalizers": ["messagestore.dev/data"], "annotations": {"messagestore.dev/last-handled": "{}"}}
        _accepted(apiserver.request("PATCH", _where(manifest), {"metadata": own}, MERGE))
        place = url(kind, f"{manifest['metadata']['name']}/status")
        written = _accepted(apiserver.request("PATCH", place, {"status": state.document["status"]}, MERGE))
        assert _apply(apiserver, manifest) == written
        assert written["metadata"]["generation"] == 1
        assert written["status"]["conditions"] == state.document["status"]["conditions"]
    finally:
        apiserver.request("PATCH", _where(manifest), {"metadata": {"finalizers": None}}, MERGE)
        delete(apiserver, manifest)


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_resource_is_not_done(apiserver: ApiServer, kind: str) -> None:
    manifest = next(one for one in all_resources() if one["kind"] == kind)
    manifest.pop("status", None)
    try:
        live = _apply(apiserver, manifest)
        assert live["metadata"]["generation"] == 1
        assert live["status"] == {"observedGeneration": 0, **_empty(live["status"])}
    finally:
        delete(apiserver, manifest)


def _empty(status: Document) -> Document:
    """The fields with an empty or zero default of the server."""
    return {name: value for name, value in status.items() if not value}


@pytest.mark.parametrize(
    ("kind", "name", "phase"),
    [
        ("MessageStream", "stalled", "Stalled"),
        ("RetentionPolicy", "awaiting-approval", "AwaitingApproval"),
        ("ReplayJob", "failed", "Failed"),
    ],
)
def test_resources_in_a_phase_are_listed(apiserver: ApiServer, kind: str, name: str, phase: str) -> None:
    wanted = next(one.document for one in states() if (one.kind, one.name) == (kind, name))
    for called, status in (("in-it", wanted["status"]), ("in-another", {**wanted["status"], "phase": "Pending"})):
        document = {**wanted, "metadata": {"name": called, "namespace": "default"}}
        _apply(apiserver, {key: document[key] for key in ("apiVersion", "kind", "metadata", "spec")})
        _accepted(apiserver.request("PATCH", url(kind, f"{called}/status"), {"status": status}, MERGE))
    try:
        listed = _accepted(apiserver.request("GET", url(kind, "", f"&fieldSelector=status.phase={phase}")))
        found = [one["metadata"]["name"] for one in listed["items"]]
    finally:
        for called in ("in-it", "in-another"):
            delete(apiserver, {**wanted, "metadata": {"name": called, "namespace": "default"}})
    assert found == ["in-it"]
