"""The dashboard for Grafana: as its table of panels says, in a ConfigMap with the prices of the values."""

import json
import re
import subprocess
from typing import Any

from hack.dashboard.build import FILE, Panel, rows, text
from hack.dashboard.pictures import FOLDER, PICTURES
from hack.programs import program
from ruamel.yaml import YAML

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.metrics import Metrics
from support.documents import blocks
from support.helm import REPOSITORY, rendered

ON = ("--set", "metrics.dashboard.enabled=true")
PANELS: list[Panel] = [panel for panels in rows().values() for panel in panels]


def test_the_charts_json_is_made_of_the_table_of_panels() -> None:
    assert FILE.read_text(encoding="utf-8") == text(), "run .venv/bin/python -m hack.dashboard"


def test_the_dashboard_keeps_to_the_schemas_of_grafana() -> None:
    """Read strictly by the Go types that Grafana generates from its schemas of dashboards, panels and queries.

    They are published as a Go module; the JSON schemas only in a Git repository. They don't know which texts an
    enumeration has: in Python's SDK, which makes the JSON, enumerations are types of their own.
    """
    assert _problems(FILE.read_text(encoding="utf-8")) == ""


def test_a_field_that_the_schemas_of_grafana_lack_is_refused() -> None:
    broken = json.loads(FILE.read_text(encoding="utf-8"))
    broken["timezoned"] = "utc"
    broken["panels"][1]["options"]["graph"] = "none"
    del broken["panels"][1]["targets"][0]["expr"]
    assert _problems(json.dumps(broken)).split("\n") == [
        "panels[1].targets[0].expr: required field is missing from input",
        "panels[1].options.Options: unexpected field 'graph'",
        "Dashboard: unexpected field 'timezoned'",
    ]


def test_each_query_asks_for_figures_that_there_are() -> None:
    asked = {name for panel in PANELS for query in panel.queries.values() for name in _figures(query)}
    assert asked - _told() == set()


def test_panels_fill_their_rows_and_tell_what_they_show() -> None:
    for row, panels in rows().items():
        assert sum(panel.width for panel in panels) % 24 == 0, row
    assert len({panel.title for panel in PANELS}) == len(PANELS)
    assert [panel.title for panel in PANELS if not panel.words.endswith(".")] == []


def test_the_chart_has_no_dashboard_unless_a_value_asks_for_it() -> None:
    assert [one for one in rendered() if one["metadata"]["name"].endswith("-dashboard")] == []


def test_the_dashboard_has_the_label_and_folder_that_grafana_looks_for() -> None:
    metadata = _config_map(*ON)["metadata"]
    assert metadata["labels"]["grafana_dashboard"] == "1"
    assert (metadata["namespace"], "annotations" in metadata) == ("messagestore", False)


def test_the_values_of_its_page_put_it_into_a_folder_of_grafana() -> None:
    (values,) = [
        YAML(typ="safe").load(block.text)
        for block in blocks()
        if (block.page, block.heading, block.language) == ("docs/observability.md", "Dashboard", "yaml")
    ]
    metadata = _config_map(*(f"--set-json={name}={json.dumps(value)}" for name, value in values.items()))["metadata"]
    assert (metadata["namespace"], metadata["annotations"]) == ("monitoring", {"grafana_folder": "Message stores"})
    assert metadata["labels"]["grafana_dashboard"] == "1"


def test_prices_of_the_values_are_its_constants() -> None:
    usual = {"cpuHour": "0.04048", "millionReads": "0.4", "millionWrites": "5"}
    assert _constants(json.loads(FILE.read_text(encoding="utf-8"))) == usual
    found = json.loads(
        _config_map(*ON, "--set-json", "metrics.dashboard.prices.cpuHour=0.5")["data"]["message-stores.json"]
    )
    assert _constants(found) == {**usual, "cpuHour": "0.5"}
    found["templating"] = (whole := json.loads(FILE.read_text(encoding="utf-8")))["templating"]
    assert found == whole


def test_requests_are_estimated_as_the_page_about_costs_has_measured_them() -> None:
    measured = re.findall(r"^\| .* \| (\d+) GET or HEAD, (\d+) LIST", (REPOSITORY / "docs/costs.md").read_text(), re.M)
    (query,) = next(panel for panel in PANELS if panel.title.endswith("(estimate)")).queries.values()
    reads, writes = zip(*measured, strict=True)
    assert f"({reads[0]} * $millionReads + {writes[0]} * $millionWrites)" in query
    batch = f"(({reads[1]} - {reads[0]}) * $millionReads + ({writes[1]} - {writes[0]}) * $millionWrites)"
    assert batch in query


def test_the_pictures_of_the_docs_show_its_panels() -> None:
    """Draw them anew with: PYTHONPATH=tests .venv/bin/python -m tests.perf.dashboard."""
    assert sorted(row for shown in PICTURES.values() for row in shown) == sorted(rows())
    for name, shown in PICTURES.items():
        picture = (FOLDER / f"dashboard-{name}.svg").read_text(encoding="utf-8")
        assert len(picture) < 150_000
        titles = [panel.title for row in shown for panel in rows()[row]]
        assert [title for title in (*shown, *titles) if f">{title}<" not in picture] == []


def _problems(dashboard: str) -> str:
    command = [program("dashboard-check")]
    return subprocess.run(command, input=dashboard, capture_output=True, text=True, check=True).stdout.strip()


def _config_map(*arguments: str) -> dict[str, Any]:
    (found,) = [one for one in rendered(*arguments) if one["metadata"]["name"].endswith("-dashboard")]
    return dict(found)


def _constants(dashboard: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["query"] for one in dashboard["templating"]["list"] if one["type"] == "constant"}


def _figures(query: str) -> list[str]:
    return [re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"messagestore_\w+", query)]


def _told() -> set[str]:
    metrics = Metrics()
    metrics.watch_health(lambda: False)
    metrics.watch_queue(lambda: 0, lambda: 0)
    metrics.watch_cache(Cache())
    return set(re.findall(r"^# TYPE (\S+)", metrics.page().decode(), re.MULTILINE))
