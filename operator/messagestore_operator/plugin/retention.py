"""``kubectl messagestore preview`` and ``holds``: what policies would remove, and what keeps messages."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from messagestore_operator.cli.output import BAD_INPUT, Column, Output, OutputOption, print_rows, print_table, printed
from messagestore_operator.kube.objects import at, name_of, namespace_of, time_of
from messagestore_operator.names import approved_previews
from messagestore_operator.plugin.facts import conditions
from messagestore_operator.plugin.find import POLICY, STREAM, MaybeStream, PolicyName, all_of, find, plural_of
from messagestore_operator.plugin.kubectl import Document, Kubectl
from messagestore_operator.plugin.options import Everywhere, UserError, reaching
from messagestore_operator.plugin.reading import Page, PodOptions, answer_of, by_pod
from messagestore_operator.plugin.words import size

_TAKEN = {
    "GLOBAL": "globalPosition",
    "TIME": "time",
    "ID": "messageId",
    "STREAM": "streamName",
    "TYPE": "type",
    "STATUS": "status",
    "RULES": "rules",
    "STAYS": "stays",
}


@reaching
@by_pod
def preview(
    kubectl: Kubectl,
    pod: PodOptions,
    policy: PolicyName,
    stream: MaybeStream = None,
    each: Annotated[
        bool, typer.Option("--list", help="Read which messages go once the preview is approved, as messages does.")
    ] = False,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="RULE", help="With --list: only those that this rule selects.")
    ] = None,
    position: Annotated[
        int | None, typer.Option("--position", "-p", help="With --list: global position to begin with.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="With --list: how many at most.")] = 100,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a policy's next purge would remove or scrub on each stream, by rule, as its last preview has it.

    A message counts under each rule that selects it. To count takes ClusterRole …-look, to list …-read. Messages are
    listed in order of arrival; if there may be more, standard error has the --position of the next page.
    """
    if each:
        stream = stream or _only_waiting(find(kubectl, POLICY, policy))
        _print_each(kubectl, pod, policy, stream, {"rule": rule, "position": position, "limit": limit}, output)
        return
    document = find(kubectl, POLICY, policy)
    listed = [one for one in previews(document) if stream in (None, one["stream"])]
    if printed(output, listed, "previews"):
        return
    if not listed:
        if stream:
            find(kubectl, STREAM, stream)
        which = f" of stream {stream}" if stream else ""
        raise UserError(f"policy {policy} has made no preview{which} yet{_why_none(document)}")
    columns = ("STREAM", "PREVIEW", "RULE", "MESSAGES", "BYTES", "OLDEST", "NEWEST", "HELD", "UNDECIDED", "APPROVAL")
    print_table([Column(one) for one in columns], [row for one in listed for row in _rows(one)])


def _why_none(policy: Document) -> str:
    """What a run waits for or does that will make a preview, or how to ask for one."""
    if work := next((one for one in conditions(policy) if (one.type, one.status) == ("Reconciling", "True")), None):
        return f": {work.message}"
    return f"; trigger it: kubectl messagestore trigger policy {name_of(policy)}"


def _only_waiting(policy: Document) -> str:
    """The stream whose preview waits for approval."""
    waiting = [str(one["stream"]) for one in previews(policy) if one["awaitingApproval"]]
    if len(waiting) == 1:
        return waiting[0]
    name = name_of(policy)
    if waiting:
        raise UserError(f"of which stream? previews wait of {', '.join(waiting)}: name its STREAM", BAD_INPUT)
    raise UserError(
        f"no preview of policy {name} waits for approval, so no list of messages is kept. With spec.approval Required "
        f"and spec.mode Enforce its next run makes one, and removes nothing until it is approved"
    )


def _print_each(kubectl: Kubectl, pod: PodOptions, policy: str, stream: str, wanted: Document, output: Output) -> None:
    with answer_of(kubectl, pod, stream, {"ask": "preview", "policy": policy, "wanted": wanted}) as lines:
        page = Page(lines)
        listed = list(map(json.loads, page))
    if not printed(output, listed, "messages"):
        print_rows(_TAKEN, [[_cell(one[name]) for name in _TAKEN.values()] for one in listed], "no messages")
    page.tell_next()


def _cell(value: object) -> object:
    return ", ".join(value) if isinstance(value, list) else value


def previews(document: Document) -> list[dict[str, Any]]:
    """The previews of a policy, one for each stream, as its status has them, and whether somebody has approved them.

    One that is approved awaits approval in the status until its run has ended.
    """
    approved = approved_previews(at(document, "metadata", "annotations") or {})
    return [
        {
            "stream": one["name"],
            "awaitingApproval": bool(one.get("awaitingApproval")),
            "approved": one["preview"]["id"] in approved,
            **one["preview"],
        }
        for one in at(document, "status", "streams") or []
        if one.get("preview")
    ]


def _rows(preview: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """A row of all, then one of each rule."""
    approval = "approved" if preview["approved"] else "waits" if preview["awaitingApproval"] else ""
    figures = (
        preview.get("oldest"),
        preview.get("newest"),
        preview.get("held", 0),
        preview.get("undecided", 0),
        approval,
    )
    yield (preview["stream"], preview["id"], "all", preview.get("messages", 0), size(preview.get("bytes", 0)), *figures)
    for rule, count in (preview.get("byRule") or {}).items():
        yield (preview["stream"], preview["id"], rule, count, "", "", "", "", "", "")
    for one in preview.get("subscriptions") or []:
        words = f"{one.get('waiting', 0)} wait for it, {one.get('missed', 0)} would be missed"
        yield (preview["stream"], preview["id"], f"subscription {one['name']}: {words}", "", "", "", "", "", "", "")


@reaching
def holds(
    kubectl: Kubectl, stream: MaybeStream = None, everywhere: Everywhere = False, output: OutputOption = Output.TABLE
) -> None:
    """List the holds of streams: what each covers, and until when."""
    streams = [find(kubectl, STREAM, stream)] if stream else all_of(kubectl, plural_of(STREAM))
    listed = [one for document in streams for one in holds_of(document, datetime.now(UTC))]
    if printed(output, listed, "holds"):
        return
    columns = ("NAMESPACE", "STREAM", "HOLD", "STATE", "UNTIL", "COVERS")
    print_rows(columns, [_cells(one) for one in listed], "no holds")


def holds_of(document: Document, now: datetime) -> list[dict[str, Any]]:
    """The holds of a stream's spec; one with an end that has passed keeps nothing."""
    listed = []
    for hold in at(document, "spec", "holds") or []:
        until = time_of(hold.get("until"))
        state = "ended" if until is not None and until <= now else "holds"
        where = {"namespace": namespace_of(document), "stream": name_of(document)}
        match = {name: value for name, value in (hold.get("match") or {}).items() if value}
        listed.append({**where, "name": hold["name"], "state": state, "until": hold.get("until"), "match": match})
    return listed


def _cells(hold: dict[str, Any]) -> tuple[object, ...]:
    covers = "; ".join(f"{name}: {_text(value)}" for name, value in hold["match"].items()) or "all messages"
    return hold["namespace"], hold["stream"], hold["name"], hold["state"], hold["until"], covers


def _text(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
