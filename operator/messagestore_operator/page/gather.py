"""Reads what a page says of a store."""

from collections.abc import Sequence
from datetime import datetime

from messagestore.reader import DeadLetter, Overview, Reader
from messagestore_operator.api import Resource
from messagestore_operator.page import forecast, sections, words
from messagestore_operator.page.parts import StorePage

_SAMPLES = 3
"""How many dead letters of each reason are shown."""
_AUDIT = 500
"""How many rows of the audit are read, the newest."""


def store_page(
    uri: str, reader: Reader, resources: Sequence[Resource], as_of: datetime, *, payloads: bool
) -> StorePage:
    """All about one store; a few narrow columns are read of all messages.

    Args:
        resources: policies, and streams for their labels and holds.
        as_of: when the days of the policies begin.
        payloads: whether the page has the records of dead letters.
    """
    overview = reader.overview()
    owner = reader.owner
    policies = forecast.applied(resources, owner)
    told = [(one, reader.leaving(one.rules, one.holds, as_of, forecast.DAYS)) for one in policies]
    return StorePage(
        uri,
        _facts(overview, owner),
        [
            sections.messages(overview),
            sections.sizes(overview),
            sections.batches(overview),
            sections.dead_letters(
                overview.reasons, list(_samples(reader, overview, payloads=payloads)), payloads=payloads
            ),
            forecast.forecast(told, as_of),
            sections.time_line(list(reader.audit(sections.ACTIONS, batch_size=_AUDIT))),
        ],
    )


def _samples(reader: Reader, overview: Overview, *, payloads: bool) -> list[DeadLetter]:
    open_ = [one.reason for one in overview.reasons if one.open]
    return [sample for reason in open_ for sample in reader.dead_letters([reason], False, _SAMPLES, raw=payloads)]


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
