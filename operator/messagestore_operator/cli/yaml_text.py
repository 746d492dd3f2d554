"""Values as YAML."""

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from messagestore_core.text import printable


def yaml_text(value: dict[str, Any]) -> str:
    """A value as one YAML document, in the order of its keys."""
    text = StringIO()
    writer = YAML(typ="safe", pure=True)
    writer.Representer = _Representer
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.dump(value, text)
    # Such characters are only in quoted strings, where YAML takes these escapes.
    return printable(text.getvalue(), keep="\n")


class _Representer(SafeRepresenter):
    """Quotes texts with characters that have to be escaped."""


def _quoted(representer: SafeRepresenter, text: str) -> ScalarNode:
    style = None if text.replace("\n", "").isprintable() else '"'
    node: ScalarNode = representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Representer.add_representer(str, _quoted)
