"""The dashboard as Grafana's JSON, made of the rows of panels.yaml by Grafana's own SDK."""

import json
import warnings
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from ruamel.yaml import YAML

with warnings.catch_warnings():
    # Older releases of Grafana read only the model that the SDK calls old.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.builders import bargauge, common, dashboard, prometheus, stat, table, timeseries
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models import common as models
    from grafana_foundation_sdk.models import dashboard as model
    from grafana_foundation_sdk.models.prometheus import PromQueryFormat

_CHART = Path(__file__).parents[2] / "charts/message-store-operator"
FILE = _CHART / "files/dashboard.json"
_PANELS = Path(__file__).with_name("panels.yaml")
UID = "message-store-operator"
_STREAMS = 'kind="MessageStream", namespace=~"$namespace"'
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_COLUMNS = model.DataTransformerConfig(id_val="organize", options={"excludeByName": {"Time": True, "Value": True}})
_NOW = common.ReduceDataOptions().calcs(["lastNotNull"]).values(False)
_Builder: TypeAlias = bargauge.Panel | stat.Panel | table.Panel | timeseries.Panel

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
    """The panels by their row's title, with the selectors of the dashboard's variables in their queries."""
    written = YAML(typ="safe").load(_PANELS)
    return {row: [_selecting(Panel(**panel)) for panel in panels] for row, panels in written.items()}


def _selecting(panel: Panel) -> Panel:
    queries = dict(panel.queries)
    for word, selector in _SELECTORS.items():
        queries = {name: query.replace(word, selector) for name, query in queries.items()}
    return panel._replace(queries=queries)


def text() -> str:
    """The content of the chart's file."""
    return json.dumps(_dashboard(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def chosen(query: str, **variables: str) -> str:
    """A query of the chart's file as Grafana asks it, once variables are chosen; prices are those of the file."""
    listed = json.loads(FILE.read_text(encoding="utf-8"))["templating"]["list"]
    prices = {one["name"]: one["query"] for one in listed if one["type"] == "constant"}
    for name, value in {**variables, **prices}.items():
        query = query.replace(f"${name}", value)
    return query


def _dashboard() -> model.Dashboard:
    made = (
        dashboard.Dashboard("Message stores")
        .uid(UID)
        .description("Streams, retention, replays and the operator: docs/observability.md.")
        .tags(["messagestore"])
        .time("now-6h", "now")
        .refresh("1m")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .with_variable(dashboard.DatasourceVariable("datasource").label("Prometheus").type("prometheus"))
        .with_variable(_labels("namespace", "label_values(messagestore_condition, namespace)"))
        .with_variable(_labels("stream", f"label_values(messagestore_condition{{{_STREAMS}}}, name)"))
    )
    # The chart puts the prices of its values in their place.
    prices = YAML(typ="safe").load(_CHART / "values.yaml")["metrics"]["dashboard"]["prices"]
    for name, price in prices.items():
        made.with_variable(dashboard.ConstantVariable(name).value(str(price)))
    numbers = count(1)
    for title, panels in rows().items():
        made.with_row(dashboard.Row(title).id(next(numbers)))
        for panel in panels:
            made.with_panel(_panel(panel).id(next(numbers)))
    return made.build()


def _labels(name: str, query: str) -> dashboard.QueryVariable:
    every = model.VariableOption(selected=True, text="All", value="$__all")
    return (
        dashboard.QueryVariable(name)
        .label(name.capitalize())
        .datasource(_SOURCE)
        .query(query)
        .definition(query)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .all_value(".*")
        .current(every)
    )


def _panel(panel: Panel) -> _Builder:
    made = _of_look(panel).title(panel.title).description(panel.words).unit(panel.unit).datasource(_SOURCE)
    made.span(panel.width).height(8)
    for letter, (legend, query) in zip("ABC", panel.queries.items(), strict=False):
        made.with_target(_target(panel, query).legend_format(legend).ref_id(letter))
    return made


def _of_look(panel: Panel) -> _Builder:
    match panel.look:
        case "stat":
            return stat.Panel().reduce_options(_NOW).graph_mode(models.BigValueGraphMode.NONE)
        case "bars":
            return bargauge.Panel().reduce_options(_NOW).orientation(models.VizOrientation.HORIZONTAL)
        case "table":
            return table.Panel().with_transformation(_COLUMNS)
        case "lines":
            return timeseries.Panel().line_width(1).fill_opacity(5)
        case "stack":
            stacking = common.StackingConfig().mode(models.StackingMode.NORMAL)
            return timeseries.Panel().line_width(1).fill_opacity(25).stacking(stacking)


def _target(panel: Panel, query: str) -> prometheus.Dataquery:
    made = prometheus.Dataquery().expr(query).datasource(_SOURCE)
    if panel.look in ("lines", "stack"):
        return made.range()
    return made.instant().format(PromQueryFormat.TABLE) if panel.look == "table" else made.instant()
