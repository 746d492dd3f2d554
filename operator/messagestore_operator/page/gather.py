"""What a page says of a store, from its figures."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from messagestore.figures import Figures
from messagestore.reader import Overview
from messagestore_operator.page import forecast, sections, words
from messagestore_operator.page.forecast import Applied
from messagestore_operator.page.parts import StorePage


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
