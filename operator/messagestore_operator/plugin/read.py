"""``kubectl messagestore messages``, ``message``, ``history`` and ``verify``: what a store in the cluster holds."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from messagestore_core.text import camel, printable
from messagestore_operator.cli.messages import CHANGES, FOUND, WIDE_CHANGES, WIDE_FOUND, print_array
from messagestore_operator.cli.options import (
    CorrelationId,
    ErrorText,
    From,
    MessageId,
    OldestFirst,
    Since,
    Statuses,
    Types,
)
from messagestore_operator.cli.output import (
    FAILED,
    Column,
    Output,
    OutputOption,
    echo,
    plain_json,
    print_rows,
    print_table,
    print_yaml,
    printed,
)
from messagestore_operator.plugin.find import StreamName
from messagestore_operator.plugin.kubectl import Kubectl
from messagestore_operator.plugin.options import UserError, reaching
from messagestore_operator.plugin.reading import Line, Page, PodOptions, answer_of, by_pod

Payload = Annotated[bool, typer.Option("--payload", help="Show payloads and results, too.")]
_PAYLOAD = {"PAYLOAD": "payload"}
_MISSING = {
    "SetAside": "a record of it was set aside as a dead letter: {reason}",
    "Erased": "it was erased at {erasedAt}",
    "Purged": "it was purged at {purgedAt}",
    "NotSeen": "nothing is known of it",
}


@reaching
@by_pod
def messages(
    kubectl: Kubectl,
    pod: PodOptions,
    stream: StreamName,
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", show_default=False, help="A message stream (order-123) or a category (order)."),
    ] = None,
    status: Statuses = None,
    type_: Types = None,
    error: ErrorText = None,
    correlation_id: CorrelationId = None,
    since: Since = None,
    where: Annotated[str | None, typer.Option("--where", metavar="CONDITION", help="Only if this is true.")] = None,
    position: From = None,
    oldest_first: OldestFirst = False,
    limit: Annotated[int, typer.Option("--limit", min=-1, help="Maximum number of messages. -1 is no limit.")] = 100,
    payload: Payload = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read messages of a stream's store, the newest first, by a short-lived pod with the stream's own credentials.

    The credentials stay in the cluster; what is read comes by exec, and is in no log. You need ClusterRole …-read in
    the namespace. If there may be more, standard error has the --position of the next page.
    """
    wanted = {
        "name": name,
        "statuses": status or [],
        "types": type_ or [],
        "correlationId": correlation_id,
        "error": error,
        "since": since.isoformat() if since else None,
        "where": where,
        "position": position,
        "oldestFirst": oldest_first,
        "limit": limit,
    }
    question = {"ask": "messages", "wanted": wanted, "payloads": payload, "native": output is Output.JSON}
    with answer_of(kubectl, pod, stream, question) as lines:
        page = Page(lines)
        if output is Output.JSON:
            print_array(page)
        elif output is Output.YAML:
            print_yaml({"messages": list(map(json.loads, page))})
        else:
            shown = FOUND | (WIDE_FOUND if output is Output.WIDE else {}) | (_PAYLOAD if payload else {})
            rows = [_cells(json.loads(text), shown) for text in page]
            print_rows(shown, rows, "no messages")
    page.tell_next()


@reaching
@by_pod
def message(
    kubectl: Kubectl,
    pod: PodOptions,
    stream: StreamName,
    message_id: MessageId,
    payload: Payload = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Read one message of a stream's store, as `messages` does: all its fields, and with --payload its payload."""
    native = output is Output.JSON
    question = {"ask": "message", "messageId": message_id, "payloads": payload, "native": native}
    with answer_of(kubectl, pod, stream, question) as lines:
        (text,) = _of_message(lines, stream, message_id)
    if output is Output.JSON:
        typer.echo(plain_json(text))
        return
    document = json.loads(text)
    if output is Output.YAML:
        print_yaml(document)
        return
    content = document.pop("payload", None)
    print_table([Column("FIELD"), Column("VALUE")], [(name, _cell(value)) for name, value in document.items()])
    if content is not None:
        typer.echo(f"\n{printable(content, chr(10) + chr(9))}")


@reaching
@by_pod
def history(
    kubectl: Kubectl, pod: PodOptions, stream: StreamName, message_id: MessageId, output: OutputOption = Output.TABLE
) -> None:
    """Read what has changed in the lifecycle of a message, as `messages` does: when, which attempt, which error."""
    question = {"ask": "history", "messageId": message_id}
    with answer_of(kubectl, pod, stream, question) as lines:
        rows = list(map(json.loads, _of_message(lines, stream, message_id)))
    if not printed(output, rows, "history"):
        shown = CHANGES | (WIDE_CHANGES if output is Output.WIDE else {})
        print_rows(shown, [_cells(row, shown) for row in rows], "no changes")


@reaching
@by_pod
def verify(
    kubectl: Kubectl,
    pod: PodOptions,
    stream: StreamName,
    payloads: Annotated[bool, typer.Option(help="Read all payloads, and compare each with its SHA-256.")] = True,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check that a stream's store is what was stored, by a pod as `messages` has it; with the keys of its seals.

    It reads all messages, and writes nothing. Exits 1 if something is wrong.
    """
    from messagestore_operator.cli.verify import check_lines

    made = []
    question = {"ask": "verify", "payloads": payloads}
    with answer_of(kubectl, pod, stream, question) as lines:
        for word, text in lines:
            if word != "check":
                continue
            made.append(check := json.loads(text))
            if output in (Output.TABLE, Output.WIDE):
                for line in check_lines(**check):
                    echo(line)
    printed(output, made, "checks")
    if any(check["count"] for check in made):
        raise typer.Exit(FAILED)


def _of_message(lines: Iterator[Line], stream: str, message_id: str) -> list[str]:
    """The lines about a message."""
    texts = []
    for word, text in lines:
        if word == "missing":
            outcome = json.loads(text)
            words = _MISSING.get(outcome["outcome"], "it is not what was stored").format(**outcome)
            raise UserError(f'no message with id "{message_id}" in stream {stream}: {words}')
        if word != "end":
            texts.append(text)
    return texts


def _cells(document: dict[str, Any], shown: dict[str, str]) -> tuple[object, ...]:
    return tuple(_cell(document.get(camel(column))) for column in shown.values())


def _cell(value: Any) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else value
