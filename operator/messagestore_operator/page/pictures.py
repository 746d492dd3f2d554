"""Pictures as SVG inside the page, by matplotlib. Their colours are the page's, so that they follow light and dark.

Texts of others are never read as formulas, and reach the SVG escaped.
"""

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

import matplotlib as mpl
from markupsafe import Markup, escape
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from messagestore_core.text import clipped, printable
from messagestore_operator.page.words import short_number

SERIES = 8
"""How many colours there are; the last is for all others."""
_INK, _RULE = "#010203", "#010204"
_COLORS = [f"#0102{number:02x}" for number in range(16, 16 + SERIES)]
_VARIABLES = {_INK: "var(--ink)", _RULE: "var(--rule)"} | {
    color: f"var(--series-{number})" for number, color in enumerate(_COLORS)
}
"""The page's colours by those that matplotlib draws with."""
_NAME = 34
"""Characters of a name that a picture has room for; the table has all."""
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 9,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.edgecolor": _RULE,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Line(NamedTuple):
    """Values by time; a value of None leaves a gap."""

    name: str
    values: Sequence[float | None]


def stacked_bars(title: str, labels: Sequence[str], series: Sequence[tuple[str, Sequence[int]]]) -> Markup:
    """A bar for each label, of one part for each series."""
    with _figure(title, 9, 3) as (figure, drawn):
        axes = _axes(figure, left=0.07, bottom=0.16)
        below = [0] * len(labels)
        for color, (_, values) in zip(_COLORS, series, strict=False):
            axes.bar(range(len(labels)), values, bottom=below, color=color, width=0.8)
            below = [a + b for a, b in zip(below, values, strict=True)]
        step = -(-len(labels) // 8)
        axes.set_xticks(range(0, len(labels), step), [printable(one) for one in labels[::step]])
        _count_upwards(axes)
    return drawn[0]


def bars(title: str, rows: Sequence[tuple[str, float]], *, unit: str = "") -> Markup:
    """A bar for each name, the first on top."""
    with _figure(title, 9, 0.5 + 0.27 * len(rows)) as (figure, drawn):
        high = 0.5 + 0.27 * len(rows)
        axes = _axes(figure, left=0.3, bottom=0.35 / high)
        axes.barh(range(len(rows)), [value for _, value in rows], color=_COLORS[0], height=0.7)
        axes.set_yticks(range(len(rows)), [clipped(printable(name), _NAME) for name, _ in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=not unit))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value, unit)))
        axes.set_xlim(left=0)
    return drawn[0]


def lines(title: str, times: Sequence[datetime], values: Sequence[Line], *, unit: str) -> Markup:
    """Values by time, a line each."""
    with _figure(title, 9, 2.6) as (figure, drawn):
        axes = _axes(figure, left=0.07, bottom=0.16)
        for color, mark, line in zip(_COLORS, "os^D", values, strict=False):
            known = [(at, value) for at, value in zip(times, line.values, strict=True) if value is not None]
            days = _days(at for at, _ in known)
            axes.plot(days, [value for _, value in known], color=color, marker=mark, markersize=4)
        _dates(axes, times)
        _count_upwards(axes, unit)
    return drawn[0]


def time_line(title: str, events: Sequence[tuple[datetime, str]]) -> Markup:
    """A mark for each event, in the row of its name."""
    names = list(dict.fromkeys(name for _, name in events))
    with _figure(title, 9, 0.8 + 0.3 * len(names)) as (figure, drawn):
        axes = _axes(figure, left=0.16, bottom=0.5 / (0.8 + 0.3 * len(names)))
        for row, name in enumerate(names):
            times = _days(at for at, known in events if known == name)
            axes.plot(times, [row] * len(times), color=_COLORS[row % SERIES], marker="D", linestyle="none")
        axes.set_yticks(range(len(names)), [clipped(printable(name), _NAME) for name in names])
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.grid(visible=True, axis="y", color=_RULE)
        _dates(axes, [at for at, _ in events])
    return drawn[0]


@contextmanager
def _figure(title: str, width: float, height: float) -> Iterator[tuple[Figure, list[Markup]]]:
    """A figure to draw on, and a list that has its SVG afterwards; sizes in inches."""
    drawn: list[Markup] = []
    # What marks the parts of a picture is derived from this, and differs between pictures of one page.
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": title}), warnings.catch_warnings():
        # It warns of glyphs that its own font lacks and a browser has, and of how many dates fit.
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(width, height))
        yield figure, drawn
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True)
    drawn.append(_of_the_page(written.getvalue(), title))


def _axes(figure: Figure, left: float, bottom: float) -> Axes:
    return figure.add_axes((left, bottom, 0.98 - left, 0.95 - bottom))


def _days(times: Iterable[datetime]) -> Any:
    """Times as matplotlib draws them, without their zone, which is UTC for all."""
    return [dates.date2num(at.astimezone(UTC).replace(tzinfo=None)) for at in times]  # type: ignore[no-untyped-call]


def _dates(axes: Axes, times: Sequence[datetime]) -> None:
    if len(set(times)) == 1:
        axes.set_xticks(_days(times[:1]), [f"{times[0]:%Y-%m-%d %H:%M}"])
        return
    locator = dates.AutoDateLocator()  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _count_upwards(axes: Axes, unit: str = "") -> None:
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=not unit))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value, unit)))


def _of_the_page(svg: str, title: str) -> Markup:
    """An SVG file as a part of a page: with a title, the page's colours and font, and no name that others have."""
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    used = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', body))
    body = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in used else "", body)
    for color, variable in _VARIABLES.items():
        body = body.replace(color, variable)
    # What no pixel shows is half of it.
    body = re.sub(r' d="[^"]*"', lambda match: re.sub(r"(\.\d)\d+|\n", r"\1", match[0]), body)
    body = re.sub(r"^\s+", "", body, flags=re.MULTILINE)
    begin = re.match(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', body)
    assert begin is not None
    head = f'<svg role="img" viewBox="{begin[1]}" xmlns:xlink="http://www.w3.org/1999/xlink">'
    return Markup(f"{head}<title>{escape(printable(title))}</title>{body[begin.end() :]}")
