"""Figures of stores for pages, and pages of them."""

from datetime import UTC, date, datetime, timedelta

from messagestore.audit import AuditRow
from messagestore.dead_letters import DeadLetter
from messagestore.leaving import Leaving, LeavingDay
from messagestore.overview import Batch, Overview, Part, Reason
from messagestore_core.contract.ingest import IngestCounts
from messagestore_operator.api import Resource
from messagestore_operator.api.kinds import parse_resource
from messagestore_operator.page import sections
from messagestore_operator.page.document import html
from messagestore_operator.page.forecast import applied, forecast
from messagestore_operator.page.parts import Section, StorePage

AT = datetime(2026, 4, 6, tzinfo=UTC)
DAY = timedelta(days=1)
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title><svg onload=alert(1)>",
    "{{ 7 * 7 }}{% raw %}",
    "$\\frac{a}{b}$",
    "a\x00b\x1b[31m\u202e",
    "&lt;b&gt;",
    "url(#x)\" id='y'",
    "_hidden",
    "名前 😀",
]


def part(day: int = 0, category: str = "order", messages: int = 1, **given: object) -> Part:
    values = {"type": "created", "status": "RECEIVED", "payload_bytes": 10 * messages} | given
    return Part(day=date(2026, 4, 1) + day * DAY, category=category, messages=messages, **values)


def overview(**given: object) -> Overview:
    values = {"parts": (part(),), "reasons": (), "batches": ()} | given
    return Overview(version=1, committed_at=AT, file_bytes=2048, totals=IngestCounts(), **values)


def batch(number: int, **given: object) -> Batch:
    values: dict[str, object] = {"arrived_at": AT, "at": AT + DAY / 1440, "committed_at": AT + number * DAY / 1440}
    counts = IngestCounts(received=3, stored=2, dead_lettered=1)
    return Batch(source_id="s", number=number, counts=counts, **{"unread": None} | values | given)


def policy(**spec: object) -> Resource:
    rule = {"name": "r", "maxAge": "P9D"}
    document = {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": "RetentionPolicy",
        "metadata": {"name": "old", "namespace": "shop"},
        "spec": {"trigger": {"manual": {}}, "rules": [rule], "streamRefs": [{"name": "orders"}], **spec},
    }
    return parse_resource(document)


def stream(**labels: str) -> Resource:
    hold = {"name": "h", "match": {"categories": ["order"]}}
    source = {"files": {"uri": "file:///landing"}}
    spec = {"table": {"uri": "file:///store"}, "source": source, "trigger": {"manual": {}}, "holds": [hold]}
    metadata = {"name": "orders", "namespace": "shop", "labels": labels}
    return parse_resource(
        {"apiVersion": "messagestore.dev/v1alpha1", "kind": "MessageStream", "metadata": metadata, "spec": spec}
    )


def page_of(*names: str) -> str:
    """A page on which each text of others is one of these names."""
    parts = [part(category=name, type=name, status=name) for name in names]
    reasons = [Reason(name, 1, 0, AT, AT) for name in names]
    samples = [
        DeadLetter(
            raw=name.encode(),
            source={"uri": name},
            reason=name,
            detail=name,
            failed_at=AT,
            redriven_at=None,
            redriven_by=None,
            message_id=name,
        )
        for name in names
    ]
    audit = [
        AuditRow(at=AT, action="Purge", run=name, actor=name, requested_by=name, counts={name: 1}) for name in names
    ]
    told = Leaving((LeavingDay(0, 1, 1),), 0, dict.fromkeys(names, ("maxBytes",)), names)
    found = overview(parts=tuple(parts), reasons=tuple(reasons), batches=(batch(1), batch(2)))
    (one,) = applied([policy()], ("shop", "orders"))
    made = [
        sections.messages(found),
        sections.sizes(found),
        sections.batches(found),
        sections.dead_letters(found.reasons, samples, payloads=True),
        forecast([(one, told)], AT),
        sections.time_line(audit),
    ]
    return html([StorePage(name, {"Stream": name}, made) for name in names[:1]], AT, "1")


def orders() -> list[Section]:
    """The sections of a store of a month, in which something happened each week."""
    categories = {"order": 400, "payment": 300, "shipment": 120, "refund": 25}
    parts = [
        part(day - 30, name, (size * (7 + (day * 5 + size) % 6)) // (3 if day % 7 in (4, 5) else 1), status=status)
        for day in range(30)
        for name, size in categories.items()
        for status in (("COMPLETED",) if day % 9 else ("COMPLETED", "FAILED"))
    ]
    minute = DAY / 1440
    waits = [
        batch(
            n,
            arrived_at=AT + n * 5 * minute,
            at=AT + (n * 5 + 1 + n * n % 7 / 4) * minute,
            committed_at=AT + (n * 5 + 1.4 + n * n % 7 / 3) * minute,
        )
        for n in range(40)
    ]
    reasons = [Reason("InvalidField", 7, 2, AT, AT), Reason("Unparseable", 31, 0, AT, AT)]
    found = overview(parts=tuple(parts), reasons=tuple(reasons), batches=tuple(waits))
    told = Leaving(tuple(LeavingDay(day, 900 + day * 37 % 400, 10_000) for day in range(31) if day % 7), 12, {}, ())
    (one,) = applied([policy()], ("shop", "orders"))
    done = [
        AuditRow(at=AT + day * DAY, action=action, run=f"run-{day}")
        for day in range(30)
        for action, every in (("Purge", 7), ("Replay", 5), ("Erase", 17), ("Redrive", 11))
        if day % every == 3
    ]
    return [
        sections.messages(found),
        sections.sizes(found),
        sections.batches(found),
        sections.dead_letters(found.reasons, (), payloads=False),
        forecast([(one, told)], AT),
        sections.time_line(done),
    ]
