"""``kubectl messagestore dead-letters``: what was set aside, by reason and source."""

import json
from typing import Annotated, Any

import typer

from messagestore_operator.cli.output import BAD_INPUT, Output, OutputOption, print_rows, printed
from messagestore_operator.kube.objects import at, name_of, namespace_of
from messagestore_operator.plugin.find import STREAM, MaybeStream, all_of, find, plural_of
from messagestore_operator.plugin.kubectl import Document, Kubectl
from messagestore_operator.plugin.options import Everywhere, UserError, reaching
from messagestore_operator.plugin.reading import PodOptions, answer_of, by_pod

_CELLS = {
    "AT": ("failedAt",),
    "REASON": ("reason",),
    "DETAIL": ("detail",),
    "ID": ("messageId",),
    "SOURCE": ("source",),
}
_BYTES = {"RECORD": ("raw", "rawBase64")}


@reaching
@by_pod
def dead_letters(
    kubectl: Kubectl,
    pod: PodOptions,
    stream: MaybeStream = None,
    everywhere: Everywhere = False,
    each: Annotated[
        bool, typer.Option("--list", help="Read each of a stream by a short-lived pod, as messages does.")
    ] = False,
    reason: Annotated[
        list[str] | None,
        typer.Option("--reason", metavar="REASON", help="With --list: only those with this reason. Repeatable."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=-1, help="With --list: how many at most, the newest first. -1 is no limit.")
    ] = 100,
    payload: Annotated[bool, typer.Option("--payload", help="With --list: show the bytes of their records.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the dead letters of streams that were not redriven, by reason and source; with --list show each.

    To count them takes ClusterRole …-look, to list them …-read.
    """
    if each:
        if stream is None:
            raise UserError("which stream's? --list reads one store: name its STREAM", BAD_INPUT)
        _print_each(kubectl, pod, stream, {"reasons": reason or [], "limit": limit}, payload, output)
        return
    streams = [find(kubectl, STREAM, stream)] if stream else all_of(kubectl, plural_of(STREAM))
    listed = [one for document in streams for one in counted(document)]
    if printed(output, listed, "deadLetters"):
        return
    columns = ("NAMESPACE", "STREAM", "REASON", "COUNT", "SOURCE")
    print_rows(columns, [tuple(one.values()) for one in listed], "no dead letters")


def _print_each(
    kubectl: Kubectl, pod: PodOptions, stream: str, wanted: Document, payload: bool, output: Output
) -> None:
    question = {"ask": "deadLetters", "wanted": wanted, "payloads": payload}
    with answer_of(kubectl, pod, stream, question) as lines:
        each = [json.loads(text) for word, text in lines if word == "deadLetter"]
    if printed(output, each, "deadLetters"):
        return
    shown = _CELLS | (_BYTES if payload else {})
    rows = [[_cell(one, names) for names in shown.values()] for one in each]
    print_rows(shown, rows, "no dead letters")


def _cell(dead_letter: Document, names: tuple[str, ...]) -> object:
    """The first of these fields that a dead letter has."""
    return next((dead_letter[name] for name in names if name in dead_letter), None)


def counted(document: Document) -> list[dict[str, Any]]:
    """The dead letters of a stream by reason, as its status has them: the ten most frequent, then the others."""
    table = at(document, "status", "table") or {}
    reasons = [(one["reason"], one["count"]) for one in table.get("deadLettersByReason") or []]
    others = (table.get("deadLetters") or 0) - sum(count for _, count in reasons)
    reasons += [("others" if reasons else "not counted by reason yet", others)] if others > 0 else []
    where = {"namespace": namespace_of(document), "stream": name_of(document)}
    return [{**where, "reason": reason, "count": count, "source": _source(document)} for reason, count in reasons]


def _source(document: Document) -> str:
    source = at(document, "spec", "source") or {}
    if "kafka" in source:
        return f"kafka {', '.join(source['kafka'].get('topics') or []) or source['kafka'].get('topicPattern', '')}"
    return str(at(source, "files", "uri") or "")
