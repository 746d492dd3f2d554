"""``kubectl messagestore dead-letters``: what was set aside, by reason and source."""

from __future__ import annotations

from typing import Any

from messagestore_operator.cli.output import Output, printed
from messagestore_operator.cli.tables import print_rows
from messagestore_operator.kube.objects import at, name_of, namespace_of
from messagestore_operator.plugin.arguments import MaybeStream
from messagestore_operator.plugin.find import STREAM, find, plural_of
from messagestore_operator.plugin.kubectl import Document, Kubectl
from messagestore_operator.plugin.options import Everywhere, OutputOption, reaching


@reaching
def dead_letters(
    kubectl: Kubectl,
    stream: MaybeStream = None,
    everywhere: Everywhere = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Count the dead letters of streams that were not redriven, by reason, with the source that the records came from.

    Each dead letter, with its bytes: `messagestore dead-letters STORE`.
    """
    found = [find(kubectl, STREAM, stream)] if stream else kubectl.items(plural_of(STREAM))
    listed = [one for document in found for one in counted(document)]
    if printed(output, listed, "deadLetters"):
        return
    columns = ("NAMESPACE", "STREAM", "REASON", "COUNT", "SOURCE")
    print_rows(columns, [tuple(one.values()) for one in listed], "no dead letters")


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
