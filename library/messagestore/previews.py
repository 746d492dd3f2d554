"""Which messages a purge would take that waits for approval: what its preview has frozen in the store."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from messagestore import sql
from messagestore.errors import ArgumentError
from messagestore.location import Location, refusals
from messagestore.reads import Read
from messagestore.versions import Versions
from messagestore_core.store.purges import Plan, find_plans, frozen_page


@dataclass(frozen=True, kw_only=True)
class Taken:
    """A message that a preview has selected.

    Attributes:
        status: at the preview.
        rules: the names of those that select it; empty where an earlier release made the preview.
        erase: whether one of them erases it.
        message_id: None if the message is gone, as are ``type`` and ``time``.
        stays: why it stays, though it was selected; None: it goes, unless a hold is placed.
    """

    global_position: int
    stream_name: str | None
    position: int
    status: str
    rules: tuple[str, ...]
    erase: bool
    message_id: str | None = None
    type: str | None = None
    time: datetime | None = None
    stays: str | None = None


def taken(
    location: Location, versions: Versions, policy: str, rule: str | None, position: int, limit: int
) -> Iterator[Taken]:
    """The messages of ``messagestore.reader.Reader.taken``."""
    with refusals(location.uri):
        plan = _waiting(location, policy, rule)
        rows = frozen_page(location.store, plan, rule, position, limit).to_pylist()
    if not rows:
        return
    positions = [row["global_position"] for row in rows]
    among = sql.one_of("global_position", positions)
    pages = versions.snapshot().pages(Read(where=(among,), start=positions[0], end=positions[-1], payloads=False))
    now = {row["global_position"]: row for page in pages for row in page.select(_NOW).to_pylist()}
    for row in rows:
        yield _taken(row, now.get(row["global_position"]))


_FROZEN = ("global_position", "stream_name", "position", "status", "erase")
_SHOWN = ("message_id", "type", "time")
_NOW = ["global_position", "status", *_SHOWN]


def _taken(row: Mapping[str, Any], now: Mapping[str, Any] | None) -> Taken:
    """A frozen row, and the message as it is now; approval leaves out what has another status, and what is gone."""
    frozen = {name: row[name] for name in _FROZEN} | {"rules": tuple(row["rules"] or ())}
    if now is None:
        return Taken(**frozen, stays="it is gone")
    stays = f"it is {now['status']} now" if now["status"] != row["status"] else None
    return Taken(**frozen, **{name: now[name] for name in _SHOWN}, stays=stays)


def _waiting(location: Location, policy: str, rule: str | None) -> Plan:
    """The plan of a policy that waits for approval; all policies of a store have one namespace."""
    plans = (plan for plan in find_plans(location.store) if plan.waiting and plan.resource.name == policy)
    if (plan := next(plans, None)) is None:
        raise ArgumentError(
            f"no preview of policy {policy} waits in {location.uri}: only a run with mode Enforce and approval "
            "Required keeps a list of what it would take, until that is approved and removed"
        )
    names = [one.name for one in plan.task.rules]
    if rule is not None and rule not in names:
        raise ArgumentError(f'the preview has no rule "{rule}"; it has {", ".join(names)}')
    return plan
