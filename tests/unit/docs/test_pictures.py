"""The picture of a terminal in docs/operate.md is what `kubectl messagestore` prints.

Renew it with: RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/unit/docs/test_pictures.py.
"""

import io
import os
import re
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from messagestore_operator.plugin.status import details, tree
from support.resource_states import NOW, states

RENEW = "RENEW_SNAPSHOTS"
PICTURE = Path(__file__).parents[3] / "docs/pictures/status.svg"


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


def test_the_picture_of_a_terminal_is_what_the_command_prints() -> None:
    wanted = picture()
    if RENEW in os.environ:
        PICTURE.parent.mkdir(exist_ok=True)
        PICTURE.write_text(wanted, encoding="utf-8")
    assert PICTURE.read_text(encoding="utf-8") == wanted, f"run again with {RENEW}=1"


def test_the_picture_loads_nothing_from_elsewhere() -> None:
    assert re.findall(r"url\((?!#)[^)]*\)|href=", PICTURE.read_text(encoding="utf-8")) == []
