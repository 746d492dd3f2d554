"""The page as HTML; all texts are escaped, and what a reader can't see is written out."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from messagestore_core.text import printable
from messagestore_operator.page import words
from messagestore_operator.page.parts import StorePage
from messagestore_operator.page.pictures import SERIES

_FOLDER = Path(__file__).parent


def html(stores: Sequence[StorePage], made_at: datetime, version: str) -> str:
    """The whole page."""
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = lambda text: printable(text, "\n")
    style = Markup((_FOLDER / "page.css").read_text(encoding="utf-8"))
    return environment.get_template("page.html.j2").render(
        stores=stores, made_at=words.time(made_at), version=version, style=style, series=SERIES
    )
