"""The rows of panels.yaml, with the selectors of the dashboard's variables in their queries."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from ruamel.yaml import YAML

_FILE = Path(__file__).with_name("panels.yaml")
_SELECTORS = {
    "STREAM": 'namespace=~"$namespace", stream=~"$stream"',
    "NAMESPACE": 'namespace=~"$namespace"',
}


class Panel(NamedTuple):
    """A panel; ``queries`` by the name of their series."""

    title: str
    look: Literal["lines", "stack", "stat", "bars", "table"]
    words: str
    queries: Mapping[str, str]
    unit: str = "short"
    width: int = 8


def rows() -> dict[str, list[Panel]]:
    """The panels by their row's title."""
    written = YAML(typ="safe").load(_FILE)
    return {row: [_selecting(Panel(**panel)) for panel in panels] for row, panels in written.items()}


def _selecting(panel: Panel) -> Panel:
    queries = dict(panel.queries)
    for word, selector in _SELECTORS.items():
        queries = {name: query.replace(word, selector) for name, query in queries.items()}
    return panel._replace(queries=queries)
