"""The picture of a terminal in docs/operate.md is what a command prints, that of README is a part of a page.

Renew them with: RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/unit/docs/test_pictures.py.
"""

import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from messagestore_operator.page import document
from messagestore_operator.page.parts import Picture
from messagestore_operator.plugin.status import details, tree
from support.pages import orders
from support.resource_states import NOW, states

RENEW = "RENEW_SNAPSHOTS"
FOLDER = Path(__file__).parents[3] / "docs/pictures"
CHOSEN = (
    "Messages by day and category",
    "Lag and time to visible by batch",
    "Policy old",
    "Purges and replays",
    "Messages by category",
    "Dead letters by reason",
)
PAGE = Path(document.__file__).with_name("page.css")


def picture() -> str:
    """A stream that is stalled, as a terminal shows it; with fonts of the reader's own, none from a network."""
    found = {state.title: state.document for state in states()}
    stream, policy = found["MessageStream-stalled"], found["RetentionPolicy-awaiting-approval"]
    console = Console(record=True, file=io.StringIO(), width=100, force_terminal=True, color_system="truecolor")
    console.print(Text("$ kubectl messagestore status stream orders"))
    console.print(tree(stream, details(stream, [stream, policy], []), NOW))
    own_fonts = re.sub(r"@font-face \{\{.*?\}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(title="kubectl messagestore", code_format=own_fonts, unique_id="status")
    return "".join(f"{line.rstrip()}\n" for line in svg.splitlines())


def pictures_of_the_page() -> str:
    """Most pictures of a page, beside each other; in its colours, light and dark."""
    known = {one.title: one for section in orders() for one in section.pictures}
    chosen = [known[title] for title in CHOSEN]
    style = "".join(re.findall(r"(?:@media.*?\}\s*\}|:root \{.*?\})", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    parts, y = [], 12.0
    for pair in zip(chosen[::2], chosen[1::2], strict=True):
        drawn = [_beside(one, x, y) for x, one in zip((12, 512), pair, strict=True)]
        parts += [svg for svg, _ in drawn]
        y += max(high for _, high in drawn) + 56
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 1000 {y:g}">'
        f"<title>A page about a store</title><style>{style} text {{ font-family: sans-serif !important; }}</style>"
        f'<rect width="1000" height="{y:g}" style="fill: var(--paper)"/>{"".join(parts)}</svg>\n'
    )


def _beside(one: Picture, x: float, y: float) -> tuple[str, float]:
    """A picture with its title and the names of its colours, and its height without these."""
    svg = str(one.svg)
    wide, high = map(float, re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)[0])
    high *= 476 / wide
    words = f'<text x="{x}" y="{y + 12}" style="fill: var(--ink)" font-size="13" font-weight="bold">{one.title}</text>'
    names = "".join(
        f'<rect x="{x + 90 * number}" y="{y + 22}" width="9" height="9" style="fill: var(--series-{number})"/>'
        f'<text x="{x + 90 * number + 13}" y="{y + 30}" style="fill: var(--ink)" font-size="10">{name}</text>'
        for number, name in enumerate(one.legend if len(one.legend) > 1 else ())
    )
    drawn = svg.replace("<svg", f'<svg x="{x}" y="{y + 38}" width="476" height="{high:g}"', 1)
    return words + names + drawn, high


@pytest.mark.parametrize(("name", "make"), [("status", picture), ("page", pictures_of_the_page)])
def test_the_pictures_are_what_the_commands_print_and_draw(name: str, make: Callable[[], str]) -> None:
    file, wanted = FOLDER / f"{name}.svg", make()
    if RENEW in os.environ:
        file.write_text(wanted, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == wanted, f"run again with {RENEW}=1"


@pytest.mark.parametrize("name", ["status", "page"])
def test_the_pictures_load_nothing_from_elsewhere(name: str) -> None:
    text = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    assert re.findall(r"url\((?!#)[^)]*\)|href=\"(?!#)", text) == []
