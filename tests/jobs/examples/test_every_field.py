"""The manifests with every field run, and lack no field of their kinds."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from messagestore_operator.api import KINDS, crd
from support.local_runs import EXAMPLES, LocalRuns, lines, render
from support.stores import stored

FOLDER = EXAMPLES / "every-field"


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_has_each_field_of_its_spec_and_no_other(kind: str) -> None:
    """Some are in alternatives, which are comments, and some once for several objects that have them."""
    schema = crd.custom_resource_definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    (manifest,) = FOLDER.glob(f"*-{kind.lower()}.yaml")
    text = re.sub(r"^( *)#~ ", r"\1", manifest.read_text(), flags=re.M)
    yaml = YAML(typ="safe")
    yaml.allow_duplicate_keys = True
    (document,) = (one for one in yaml.load_all(text) if one["kind"] == kind)
    assert list(_unknown(document["spec"], schema["properties"]["spec"])) == []
    assert set(_names(schema["properties"]["spec"])) - set(re.findall(r"(\w+):", text)) == set()


def _unknown(value: Any, node: dict[str, Any]) -> Iterator[str]:
    for one in value if isinstance(value, list) else []:
        yield from _unknown(one, node["items"])
    for name, inner in value.items() if isinstance(value, dict) and "properties" in node else ():
        if name not in node["properties"]:
            yield name
        else:
            yield from _unknown(inner, node["properties"][name])


def _names(node: dict[str, Any]) -> Iterator[str]:
    for name, field in node.get("properties", {}).items():
        yield name
        yield from _names(field.get("items") or field)


def test_every_field(local_run: LocalRuns, tmp_path: Path) -> None:
    done = local_run.run_text(render("every-field", tmp_path), "--at", "2026-04-01T00:00:00Z")
    assert done.exit_code == 0, done.stderr
    totals = done.status("MessageStream/orders")["totals"]
    assert (totals["received"], totals["stored"], totals["duplicates"], totals["deadLettered"]) == (5, 3, 1, 1)
    purge = done.status("RetentionPolicy/orders-retention")["streams"][0]["lastPurge"]
    assert (purge["purged"], purge["archived"], purge["held"]) == (2, 2, 1)
    (held,) = stored(f"file://{tmp_path}/every-field/orders")
    assert (held["message_id"], held["stream_name"], held["status"]) == ("o-1", "order-4711", "RECEIVED")
    (sent,) = (json.loads(line) for line in lines(tmp_path / "every-field/replayed"))
    assert (sent["messageId"], sent["headers"]["x-replay"]) == ("o-1", "orders-again")
    assert list((tmp_path / "every-field/landing").iterdir()) == []
