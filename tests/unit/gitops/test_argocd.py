"""The health of the three kinds in Argo CD, by the scripts under examples/gitops/argocd."""

import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from messagestore_operator.api import KINDS, parse_resource
from support.argocd import FOLDER, health
from support.resource_states import State, states

RENEW = "RENEW_SNAPSHOTS"
SCRIPTS = FOLDER / "messagestore.dev"
each_state = pytest.mark.parametrize("state", states(), ids=lambda state: state.title)


def _script(kind: str) -> str:
    return (SCRIPTS / kind / "health.lua").read_text()


@each_state
def test_resources_have_their_health_in_argo_cd(state: State) -> None:
    assert health(_script(state.kind), state.document)[0] == state.health


def test_the_message_is_the_one_for_people() -> None:
    messages = {state.title: health(_script(state.kind), state.document)[1] for state in states()}
    assert messages["MessageStream-idle"] == "329 messages stored; last batch 12s ago"
    assert messages["MessageStream-stalled"] == "the folder holds something else"
    assert messages["MessageStream-unseen"] == "waiting for the operator to look at it"
    assert messages["RetentionPolicy-awaiting-approval"].endswith("messagestore.dev/approved-preview: 8c1f")
    assert messages["ReplayJob-deleting"] == "being deleted"


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_written_yet_is_progress(kind: str) -> None:
    bare = {"metadata": {"name": "a", "generation": 1}}
    for status in ({}, {"status": {}}, {"status": {"observedGeneration": 1}}):
        assert health(_script(kind), {**bare, **status})[0] == "Progressing"


def test_the_config_map_holds_the_scripts() -> None:
    """Both forms have the same scripts: files to test and contribute, one ConfigMap to apply."""
    config_map = YAML(typ="safe").load(FOLDER / "argocd-cm.yaml")
    assert config_map["data"] == {
        f"resource.customizations.health.messagestore.dev_{kind}": _script(kind) for kind in KINDS
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_fixtures_are_what_the_operator_writes(kind: str) -> None:
    """Renew them with: RENEW_SNAPSHOTS=1 .venv/bin/pytest tests/unit/gitops."""
    found = {state.name: state for state in states() if state.kind == kind}
    wanted = {f"testdata/{name}.yaml": _expected(state) for name, state in found.items()}
    if RENEW in os.environ:
        _write(SCRIPTS / kind, found)
    listed = YAML(typ="safe").load(SCRIPTS / kind / "health_test.yaml")["tests"]
    assert {one["inputPath"]: one["healthStatus"] for one in listed} == wanted
    for name, state in found.items():
        document = YAML(typ="safe", pure=True).load(SCRIPTS / kind / "testdata" / f"{name}.yaml")
        assert document == state.document, f"if that is as it should be, run again with {RENEW}=1"
        parse_resource(document)


def _expected(state: State) -> dict[str, str]:
    status, message = health(_script(state.kind), state.document)
    return {"status": status, "message": message}


def _write(folder: Path, found: dict[str, State]) -> None:
    for file in (folder / "testdata").glob("*.yaml"):
        file.unlink()
    for name, state in found.items():
        _dump(state.document, folder / "testdata" / f"{name}.yaml")
    tests = [{"healthStatus": _expected(state), "inputPath": f"testdata/{name}.yaml"} for name, state in found.items()]
    _dump({"tests": tests}, folder / "health_test.yaml")


def _dump(content: Any, file: Path) -> None:
    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    with file.open("w", encoding="utf-8") as stream:
        yaml.dump(content, stream)
