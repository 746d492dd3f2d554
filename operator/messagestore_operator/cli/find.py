"""``messagestore messages``: the messages of a store in some state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.messages import FOUND, WIDE_FOUND, print_messages
from messagestore_operator.cli.options import CorrelationId, ErrorText, From, OldestFirst, Since, Statuses, Types
from messagestore_operator.cli.output import BAD_INPUT, Output, OutputOption, failure, print_fields
from messagestore_operator.cli.store import At, Store, Version, Where, opened

if TYPE_CHECKING:
    from messagestore.message import Message


def messages(
    store: Store,
    status: Statuses = None,
    type_: Types = None,
    error: ErrorText = None,
    correlation_id: CorrelationId = None,
    causation_id: Annotated[
        str | None, typer.Option("--causation-id", metavar="ID", help="Only if caused by this message.")
    ] = None,
    caused_by: Annotated[
        str | None,
        typer.Option(
            "--caused-by",
            metavar="ID",
            help="The chain that began with this message: what it caused, what that caused, and so on. With nothing "
            "else.",
        ),
    ] = None,
    since: Since = None,
    where: Where = None,
    position: From = None,
    oldest_first: OldestFirst = False,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-n", min=-1, help="Maximum number of messages. -1 is no limit.")
    ] = 100,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Read payloads, too; -o json and yaml have them.")
    ] = False,
    version: Version = None,
    at: At = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print messages by their state, the newest first, without payloads: which have failed, and why.

    If there may be more, standard error has the --position of the next page.

    Exits 1 if the store can't be read or a message is broken, 2 if arguments are wrong.
    """
    others = (status, type_, error, correlation_id, causation_id, since, where, position)
    if caused_by is not None and any(other is not None for other in others):
        raise failure("--caused-by gives a whole chain; leave other conditions out", BAD_INPUT)
    with opened(store, version, at) as reader:
        if caused_by is not None:
            chain = reader.caused_by(caused_by, payloads=payloads)
            _print(chain if batch_size < 0 else islice(chain, batch_size), output)
            return
        matching = reader.find(
            status or (),
            type_ or (),
            correlation_id,
            causation_id,
            since,
            _both(where, error),
            position,
            batch_size,
            newest_first=not oldest_first,
            payloads=payloads,
        )
        page = _Page(matching)
        _print(page, output)
        following = page.last + (1 if oldest_first else -1)
        if 0 < batch_size == page.count and following > 0:
            typer.echo(f"more: --position {following}", err=True)


def _both(where: str | None, error: str | None) -> str | tuple[str, ...] | None:
    """A condition, and that the error has a text in it."""
    if error is None:
        return where
    from messagestore.conditions import narrowed, quoted

    return narrowed(where, f"contains(error, {quoted(error)})")


class _Page:
    """The messages as they come, counted."""

    def __init__(self, messages: Iterable[Message]) -> None:
        self._messages = messages
        self.count = self.last = 0

    def __iter__(self) -> Iterator[Message]:
        for message in self._messages:
            self.count, self.last = self.count + 1, message.global_position
            yield message


def _print(messages: Iterable[Message], form: Output) -> None:
    if form in (Output.JSON, Output.YAML):
        print_messages(messages, form)
        return
    shown = FOUND | (WIDE_FOUND if form is Output.WIDE else {})
    print_fields(shown, messages, "no messages")
