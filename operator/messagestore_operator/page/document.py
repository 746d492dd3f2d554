"""The page as HTML; all texts are escaped, and what a reader can't see is written out."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from messagestore.figures import Figures
from messagestore.reader import Overview
from messagestore_core.text import printable
from messagestore_operator.page import forecast, sections, words
from messagestore_operator.page.forecast import Applied
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


def store_page(
    uri: str, figures: Figures, policies: Sequence[Applied], as_of: datetime, *, payloads: bool
) -> StorePage:
    """All about one store.

    Args:
        policies: those whose ``leaving`` the figures have, in order.
        as_of: when the days of the policies begin.
        payloads: whether the page has the records of dead letters.
    """
    overview = figures.overview
    return StorePage(
        uri,
        _facts(overview, figures.owner),
        [
            sections.messages(overview),
            sections.sizes(overview),
            sections.batches(overview),
            sections.dead_letters(overview.reasons, figures.samples, payloads=payloads),
            forecast.forecast(list(zip(policies, figures.leaving, strict=True)), as_of),
            sections.time_line(figures.audit),
        ],
    )


def _facts(overview: Overview, owner: tuple[str, str] | None) -> dict[str, str]:
    totals = overview.totals
    return {
        "Stream": "/".join(owner) if owner else "no marker names it",
        "Messages": words.number(sum(part.messages for part in overview.parts)),
        "Files": words.size(overview.file_bytes),
        "Read in all": f"{words.number(totals.received)} records: {words.number(totals.stored)} stored, "
        f"{words.number(totals.duplicates)} duplicates, {words.number(totals.dead_lettered)} dead letters, "
        f"{words.number(totals.filtered)} filtered, {words.number(totals.discarded)} discarded",
        "Version": f"{overview.version}, of {words.time(overview.committed_at)} UTC"
        if overview.committed_at
        else str(overview.version),
    }
