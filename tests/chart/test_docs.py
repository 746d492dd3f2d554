"""The tables of values match the schema, and the documentation's values render."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from support.documents import blocks
from support.helm import CHART, REPOSITORY, template

FILES = [REPOSITORY / "docs" / "install.md", CHART / "README.md"]
BEGIN, END = "<!-- values -->\n", "<!-- /values -->\n"
RENEW = "RENEW_SNAPSHOTS"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_page_lists_each_value_of_the_chart(file: Path) -> None:
    """Renew it with: RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/chart/test_docs.py."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = YAML(typ="safe").load(CHART / "values.yaml")
    rows = [f"| `{name}`{default} | {about} |\n" for name, default, about in _rows(schema, values)]
    table = "".join(["| value, default | meaning |\n", "| --- | --- |\n", *rows])
    before, _, rest = file.read_text().partition(BEGIN)
    found, _, after = rest.partition(END)
    if RENEW in os.environ:
        file.write_text(f"{before}{BEGIN}{table}{END}{after}")
        found = table
    assert found == table, f"run again with {RENEW}=1"


def _rows(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> list[tuple[str, str, str]]:
    found = []
    for name, value in values.items():
        node, place = schema["properties"][name], f"{path}.{name}".strip(".")
        if "properties" in node and isinstance(value, dict):
            found += _rows(node, value, place)
        else:
            about, shown = node["description"].removesuffix("."), json.dumps(value)
            is_short = value not in ("", {}, [], None) and len(shown) < 300
            found.append((place, f": `{shown}`" if is_short else "", about))
    return found


def test_the_values_of_network_policies_render() -> None:
    (values,) = [
        YAML(typ="safe").load(block.text)
        for block in blocks()
        if (block.page, block.heading, block.language) == ("docs/network.md", "NetworkPolicies", "yaml")
    ]
    found = template(*(f"--set-json={name}={json.dumps(value)}" for name, value in values.items()))
    assert found.count("kind: NetworkPolicy") == 2
    assert found.count("192.0.2.10/32") == 2
