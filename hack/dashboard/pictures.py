"""Draw the dashboard's panels from what a Prometheus answers; no registry of packages has Grafana itself.

python -m hack.dashboard.pictures URL MINUTES    draw docs/pictures/dashboard-*.svg of the minutes before now
"""

import json
import re
import sys
import time
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hack.dashboard.build import Panel, chosen, rows

FOLDER = Path(__file__).parents[2] / "docs/pictures"
PICTURES = {
    "stores": ("Fleet", "Records", "Lag and time to visible", "Dead letters"),
    "runs": ("Runs", "Operator"),
    "sending": ("Retention and erasure", "Replays", "Subscriptions"),
    "costs": ("Files and bytes", "CPU and money"),
}
"""The rows of each picture, by its name."""
_POINTS = 70
_MOST = 8
"""Lines of a legend, a table or bars."""
_UNITS = {
    "s": ((86400, " d"), (3600, " h"), (60, " min"), (1, " s"), (0.001, " ms")),
    "bytes": ((2**30, " GiB"), (2**20, " MiB"), (2**10, " KiB"), (1, " B")),
    "percent": ((1, " %"),),
    "percentunit": ((0.01, " %"),),
    "cps": ((1000, "k/s"), (1, "/s")),
    "reqps": ((1, " req/s"),),
    "short": ((1e6, " Mil"), (1e3, " K"), (1, "")),
}
mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "dashboard", "font.family": "sans-serif", "font.size": 7}


class Series(NamedTuple):
    """One line: its name, its labels, and values by time."""

    name: str
    labels: dict[str, str]
    times: list[float]
    values: list[float]


class Source(NamedTuple):
    """A Prometheus, and the time of the pictures, in seconds since 1970."""

    url: str
    start: float
    end: float

    def series(self, query: str, legend: str) -> list[Series]:
        """What a panel gets for a query."""
        step = (self.end - self.start) / _POINTS
        parameters = {
            "query": chosen(query, __rate_interval="1m", namespace=".*", stream=".*"),
            "start": self.start,
            "end": self.end,
            "step": step,
        }
        with urllib.request.urlopen(f"{self.url}/api/v1/query_range?{urllib.parse.urlencode(parameters)}") as answer:
            results = json.load(answer)["data"]["result"]
        series = [_series(one, legend) for one in results]
        return [one for one in series if one.values]


def draw(source: Source) -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, titles in PICTURES.items():
        file = FOLDER / f"dashboard-{name}.svg"
        _picture(source, {title: panels for title, panels in rows().items() if title in titles}).savefig(
            file, metadata={"Date": None}
        )
        file.write_text(_short(file.read_text(encoding="utf-8")), encoding="utf-8")


def _short(picture: str) -> str:
    """A picture in fewer bytes: without comments, indents, and what no pixel shows of its paths."""
    return re.sub(r"<!--.*?-->|^ +|^\n", "", re.sub(' d="[^"]*"', _short_path, picture), flags=re.MULTILINE)


def _short_path(path: re.Match[str]) -> str:
    rounded = re.sub(r"(\.\d)\d+", r"\1", path[0])
    return rounded if re.search("[CQ]", rounded) else re.sub(r"\s+L ", " ", rounded)


def _picture(source: Source, chosen: dict[str, list[Panel]]) -> Figure:
    lines = [(title, line) for title, panels in chosen.items() for line in _lines(panels)]
    high, heading = 1 / len(lines), ""
    figure = Figure(figsize=(11, 2.1 * len(lines)), facecolor="white")
    for y, (title, line) in enumerate(lines, 1):
        if title != heading:
            figure.text(0.01, 1 - (y - 0.97) * high, title, fontsize=9, fontweight="bold", va="top", color="#1f60c4")
        x, heading = 0.0, title
        for panel in line:
            wide = panel.width / 24
            axes = figure.add_axes((x + 0.05, 1 - (y - 0.13) * high, wide - 0.06, 0.62 * high))
            axes.set_title(panel.title, loc="left", fontsize=7.5, fontweight="bold")
            _draw(axes, panel, source)
            x += wide
    return figure


def _lines(panels: list[Panel]) -> list[list[Panel]]:
    """The panels that are beside each other."""
    lines: list[list[Panel]] = [[]]
    for panel in panels:
        if sum(one.width for one in lines[-1]) + panel.width > 24:
            lines.append([])
        lines[-1].append(panel)
    return lines


def _draw(axes: Axes, panel: Panel, source: Source) -> None:
    series = [one for legend, query in panel.queries.items() for one in source.series(query, legend)]
    series.sort(key=lambda one: one.name)
    now = [one for one in series if source.end - one.times[-1] < (source.end - source.start) / 20]
    match panel.look:
        case look if not (series if look in ("lines", "stack") else now):
            _texts(axes, ["No data"], size=6.5)
        case "lines" | "stack":
            _plot(axes, panel, series, source)
        case "bars":
            _bars(axes, panel, now[:_MOST])
        case "stat":
            _texts(axes, [f"{_shown(one.values[-1], panel.unit)}   {one.name}" for one in now[:_MOST]], size=9)
        case "table":
            _texts(axes, ["   ".join(one.labels.values()) for one in now[:_MOST]], size=6.5)


def _plot(axes: Axes, panel: Panel, series: list[Series], source: Source) -> None:
    if panel.look == "stack":
        times = sorted({at for one in series for at in one.times})
        known = [dict(zip(one.times, one.values, strict=True)) for one in series]
        levels = [[values.get(at, 0.0) for at in times] for values in known]
        axes.stackplot(times, levels, labels=[one.name for one in series], alpha=0.6)
    else:
        for one in series:
            axes.plot(one.times, one.values, label=one.name, linewidth=1)
    axes.set_xlim(source.start, source.end)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"))
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 1.2, 3, 6, 10] if panel.unit == "s" else None))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _shown(value, panel.unit)))
    lowest = min(value for one in series for value in one.values)
    axes.set_ylim(min(0, lowest), axes.get_ylim()[1] * 1.1)
    axes.grid(color="#dddddd", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    lines, names = axes.get_legend_handles_labels()
    axes.legend(lines[:_MOST], names[:_MOST], loc="upper left", fontsize=5.5, framealpha=0.7)


def _bars(axes: Axes, panel: Panel, series: list[Series]) -> None:
    for y, one in enumerate(series):
        axes.barh(y, one.values[-1], height=0.8, color=f"C{y}", alpha=0.35)
    _texts(axes, [f" {one.name}   {_shown(one.values[-1], panel.unit)}" for one in series], size=6.5)


def _texts(axes: Axes, lines: list[str], size: float) -> None:
    for y, line in enumerate(lines):
        axes.text(0, y, line, va="center", fontsize=size)
    axes.set_ylim(max(len(lines), 3) - 0.5, -0.5)
    axes.axis("off")


def _shown(value: float, unit: str) -> str:
    if value == 0:
        return "0"
    for factor, name in _UNITS[unit]:
        if abs(value) >= factor or name == _UNITS[unit][-1][1]:
            return f"{value / factor:.3g}{name}"
    raise AssertionError(unit)


def _series(result: dict[str, Any], legend: str) -> Series:
    labels: dict[str, str] = result["metric"]
    for name, value in labels.items():
        legend = legend.replace(f"{{{{{name}}}}}", value)
    known = [(float(at), float(value)) for at, value in result["values"] if isfinite(float(value))]
    return Series(legend, labels, [at for at, _ in known], [value for _, value in known])


if __name__ == "__main__":
    draw(Source(sys.argv[1], time.time() - 60 * float(sys.argv[2]), time.time()))
