"""What a page says of messages, sizes, batches, dead letters and the audit. Pure: figures in, sections out."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from markupsafe import Markup

from messagestore.audit import AuditRow
from messagestore.dead_letters import DeadLetter
from messagestore.figures import ACTIONS
from messagestore.overview import Batch, Overview, Part, Reason
from messagestore_core.text import clipped
from messagestore_operator.page import pictures, words
from messagestore_operator.page.parts import Picture, Section, Table

OTHERS = "all others"
_DAYS = 120
"""More days than these are counted by month."""
_NAMES = 15
_RAW = 2000
"""Characters of a dead letter's record."""


def messages(overview: Overview) -> Section:
    """Messages by day and category, and by category, type and status alone."""
    if not overview.parts:
        return Section("Messages", nothing="The store holds no messages.")
    return Section(
        "Messages",
        [
            _by_day(overview.parts),
            _counted("category", overview.parts, lambda part: part.category),
            _counted("type", overview.parts, lambda part: part.type or "(none)"),
            _counted("status", overview.parts, lambda part: part.status),
        ],
    )


def _by_day(parts: Sequence[Part]) -> Picture:
    days = {part.day for part in parts}
    form, period = ("%Y-%m-%d", "day") if len(days) <= _DAYS else ("%Y-%m", "month")
    totals = Counter[str]()
    cells = Counter[tuple[str, str]]()
    for part in parts:
        totals[part.category] += part.messages
    most = [name for name, _ in totals.most_common(pictures.SERIES - 1)]
    for part in parts:
        name = part.category if part.category in most else OTHERS
        cells[f"{part.day:{form}}", name] += part.messages
    labels = sorted({f"{day:{form}}" for day in days})
    names = [*most, *([OTHERS] if len(totals) > len(most) else [])]
    title = f"Messages by {period} and category"
    return Picture(
        title,
        f"By the {period} (UTC) on which they were stored. What was removed since is not counted.",
        Table(
            (period.capitalize(), "Messages", *names),
            [
                (label, words.number(sum(row)), *map(words.number, row))
                for label in labels
                if (row := [cells[label, name] for name in names])
            ],
            frozenset(range(1, len(names) + 2)),
        ),
        pictures.stacked_bars(title, labels, [(name, [cells[label, name] for label in labels]) for name in names]),
        tuple(names),
    )


def _counted(what: str, parts: Iterable[Part], name_of: Callable[[Part], str]) -> Picture:
    counts = Counter[str]()
    for part in parts:
        counts[name_of(part)] += part.messages
    title, total = f"Messages by {what}", counts.total()
    rows = [(name, words.number(count), f"{100 * count / total:.1f} %") for name, count in counts.most_common()]
    table = Table((what.capitalize(), "Messages", "Share"), rows, frozenset({1, 2}))
    return Picture(title, f"All {words.number(total)} messages.", table, pictures.bars(title, _most(counts)))


def _most(counts: Counter[str]) -> list[tuple[str, float]]:
    shown = list[tuple[str, float]](counts.most_common(_NAMES))
    rest = counts.total() - sum(count for _, count in shown)
    return [*shown, *([(OTHERS, rest)] if rest else [])]


def sizes(overview: Overview) -> Section:
    """Bytes of payloads by category."""
    bytes_of, count_of = Counter[str](), Counter[str]()
    for part in overview.parts:
        bytes_of[part.category] += part.payload_bytes
        count_of[part.category] += part.messages
    if not bytes_of.total():
        return Section("Sizes", nothing="No message has a payload.")
    rows = [
        (name, words.size(total), words.number(total), words.size(round(total / count_of[name])))
        for name, total in bytes_of.most_common()
    ]
    title = "Payloads by category"
    table = Table(("Category", "Payloads", "Bytes", "Mean of a message"), rows, frozenset({1, 2, 3}))
    said = f"As they came, {words.size(bytes_of.total())} in all; the files take {words.size(overview.file_bytes)}."
    return Section("Sizes", [Picture(title, said, table, pictures.bars(title, _most(bytes_of), unit="bytes"))])


def batches(overview: Overview) -> Section:
    """How long records waited, batch by batch."""
    title = "Lag and time to visible by batch"
    if not overview.batches:
        return Section("Batches", nothing="No ingest is told by the log: none has run yet, or its entries are gone.")
    rows = [
        (
            words.time(one.committed_at),
            words.number(one.number),
            *map(words.number, (one.counts.received, one.counts.stored, one.counts.dead_lettered)),
            words.span(one.lag),
            words.span(one.visible_after),
            words.number(one.unread),
        )
        for one in overview.batches
    ]
    header = ("Visible since (UTC)", "Batch", "Records", "Stored", "Dead letters", "Lag", "Time to visible", "Unread")
    said = (
        f"The last {len(rows)} batches. Lag is how long the oldest file had waited when its batch began, time to "
        "visible how long until its messages could be read. A question mark is what is not known: of topics, which "
        "tell instead what was left unread, and of runs whose clock was set."
    )
    table = Table(header, rows, frozenset(range(1, len(header))))
    return Section("Batches", [Picture(title, said, table, *_waits(title, overview.batches))])


def _waits(title: str, batches: Sequence[Batch]) -> tuple[Markup | None, tuple[str, ...]]:
    lag = [one.lag.total_seconds() if one.lag is not None else None for one in batches]
    visible = [one.visible_after.total_seconds() if one.visible_after is not None else None for one in batches]
    chosen = [pictures.Line("Lag", lag), pictures.Line("Time to visible", visible)]
    known = [line for line in chosen if any(value is not None for value in line.values)]
    if not known:
        return None, ()
    drawn = pictures.lines(title, [one.committed_at for one in batches], known, unit="seconds")
    return drawn, tuple(line.name for line in known)


def dead_letters(reasons: Sequence[Reason], samples: Sequence[DeadLetter], *, payloads: bool) -> Section:
    """Dead letters that wait, by reason, and a few of each."""
    if not reasons:
        return Section("Dead letters", nothing="No record was set aside.")
    title = "Dead letters by reason"
    table = Table(
        ("Reason", "Waiting", "Redriven", "First (UTC)", "Last (UTC)"),
        [
            (one.reason, *map(words.number, (one.open, one.redriven)), words.time(one.first), words.time(one.last))
            for one in reasons
        ],
        frozenset({1, 2}),
    )
    waiting = [(one.reason, one.open) for one in reasons if one.open]
    drawn = pictures.bars(title, waiting) if waiting else None
    shown = [Picture(title, "Those that wait: redriven ones are in the store.", table, drawn)]
    if samples:
        shown.append(_samples(samples, payloads=payloads))
    return Section("Dead letters", shown)


def _samples(samples: Sequence[DeadLetter], *, payloads: bool) -> Picture:
    header = ("Reason", "Set aside (UTC)", "Source", "Offset", "Detail", "Message", *(["Record"] if payloads else []))
    rows = [
        (
            one.reason,
            words.time(one.failed_at),
            str(one.source.get("uri") or ""),
            str(one.source.get("offset") if one.source.get("offset") is not None else ""),
            one.detail or "",
            one.message_id or "",
            *([clipped((one.raw or b"")[: 4 * _RAW].decode("utf-8", "backslashreplace"), _RAW)] if payloads else []),
        )
        for one in samples
    ]
    said = "The newest of each reason." if payloads else "The newest of each reason, without the records themselves."
    return Picture("Samples", said, Table(header, rows, frozenset({3}), frozenset({6})), is_open=True)


def time_line(rows: Sequence[AuditRow]) -> Section:
    """Purges, erasures, scrubs, replays and redrives by time."""
    title = "Purges and replays"
    done = sorted((row for row in rows if row.action in ACTIONS), key=lambda row: row.at)
    if not done:
        return Section(title, nothing="The audit has no purge and no replay.")
    cells = [
        (words.time(row.at), row.action, row.actor or "", _counts(row), row.requested_by or "", row.run)
        for row in reversed(done)
    ]
    table = Table(("At (UTC)", "Action", "Resource", "Counts", "Asked by", "Run"), cells)
    drawn = pictures.time_line(title, [(row.at, row.action) for row in done])
    return Section(title, [Picture(title, f"The last {len(done)} of the audit.", table, drawn)])


def _counts(row: AuditRow) -> str:
    return ", ".join(f"{name} {words.number(count)}" for name, count in sorted(row.counts.items()) if count)
