"""``kubectl messagestore preview`` and ``holds``: what policies would remove, and what keeps messages."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from messagestore_operator.cli.output import Output, printed
from messagestore_operator.cli.tables import Column, print_rows, print_table
from messagestore_operator.kube.objects import at, name_of, namespace_of, time_of
from messagestore_operator.plugin.arguments import MaybeStream, PolicyName
from messagestore_operator.plugin.find import POLICY, STREAM, find, plural_of
from messagestore_operator.plugin.kubectl import Document, Kubectl
from messagestore_operator.plugin.options import Everywhere, OutputOption, UserError, reaching
from messagestore_operator.plugin.words import size


@reaching
def preview(
    kubectl: Kubectl,
    policy: PolicyName,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a policy's next purge would remove or scrub on each stream, by rule, as its last preview has it.

    A message counts under each rule that selects it.
    """
    document = find(kubectl, POLICY, policy)
    found = previews(document)
    if printed(output, found, "previews"):
        return
    if not found:
        raise UserError(
            f"policy {policy} has made no preview yet; trigger it: kubectl messagestore trigger policy {policy}"
        )
    columns = ("STREAM", "PREVIEW", "RULE", "MESSAGES", "BYTES", "OLDEST", "NEWEST", "HELD", "UNDECIDED", "APPROVAL")
    print_table([Column(one) for one in columns], [row for one in found for row in _rows(one)])


def previews(document: Document) -> list[dict[str, Any]]:
    """The previews of a policy, one for each stream, as its status has them."""
    return [
        {"stream": one["name"], "awaitingApproval": bool(one.get("awaitingApproval")), **one["preview"]}
        for one in at(document, "status", "streams") or []
        if one.get("preview")
    ]


def _rows(found: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """A row of all, then one of each rule."""
    approval = "waits" if found["awaitingApproval"] else ""
    figures = (found.get("oldest"), found.get("newest"), found.get("held", 0), found.get("undecided", 0), approval)
    yield (found["stream"], found["id"], "all", found.get("messages", 0), size(found.get("bytes", 0)), *figures)
    for rule, count in (found.get("byRule") or {}).items():
        yield (found["stream"], found["id"], rule, count, "", "", "", "", "", "")
    for one in found.get("subscriptions") or []:
        words = f"{one.get('waiting', 0)} wait for it, {one.get('missed', 0)} would be missed"
        yield (found["stream"], found["id"], f"subscription {one['name']}: {words}", "", "", "", "", "", "", "")


@reaching
def holds(
    kubectl: Kubectl,
    stream: MaybeStream = None,
    everywhere: Everywhere = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the holds of streams: what each covers, and until when."""
    found = [find(kubectl, STREAM, stream)] if stream else kubectl.items(plural_of(STREAM))
    listed = [one for document in found for one in holds_of(document, datetime.now(UTC))]
    if printed(output, listed, "holds"):
        return
    columns = ("NAMESPACE", "STREAM", "HOLD", "STATE", "UNTIL", "COVERS")
    print_rows(columns, [_cells(one) for one in listed], "no holds")


def holds_of(document: Document, now: datetime) -> list[dict[str, Any]]:
    """The holds of a stream's spec; one with an end that has passed keeps nothing."""
    found = []
    for hold in at(document, "spec", "holds") or []:
        until = time_of(hold.get("until"))
        state = "ended" if until is not None and until <= now else "holds"
        where = {"namespace": namespace_of(document), "stream": name_of(document)}
        match = {name: value for name, value in (hold.get("match") or {}).items() if value}
        found.append({**where, "name": hold["name"], "state": state, "until": hold.get("until"), "match": match})
    return found


def _cells(hold: dict[str, Any]) -> tuple[object, ...]:
    covers = "; ".join(f"{name}: {_text(value)}" for name, value in hold["match"].items()) or "all messages"
    return hold["namespace"], hold["stream"], hold["name"], hold["state"], hold["until"], covers


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
