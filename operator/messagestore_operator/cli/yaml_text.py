"""Values as YAML."""

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from messagestore_core.text import printable

_TRUE_OR_FALSE = ("y", "yes", "on", "n", "no", "off")
"""To YAML 1.2 they are texts."""


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
    """Quotes texts with characters that have to be escaped, and those that kubectl would take for true or false."""


def _quoted(representer: SafeRepresenter, text: str) -> ScalarNode:
    is_plain = text.replace("\n", "").isprintable() and text.lower() not in _TRUE_OR_FALSE
    style = None if is_plain else '"'
    node: ScalarNode = representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)
    return node


_Representer.add_representer(str, _quoted)
