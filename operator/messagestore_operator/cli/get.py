"""``messagestore get``: messages of a stream or a category."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.messages import print_messages
from messagestore_operator.cli.output import BAD_INPUT, Output, OutputOption, failure
from messagestore_operator.cli.store import At, Name, Store, Version, Where, opened

if TYPE_CHECKING:
    from messagestore.message import Message
    from messagestore.reader import Reader


def get(
    store: Store,
    name: Name = None,
    position: Annotated[
        int | None,
        typer.Option(
            "--position",
            "-p",
            help="First position, inclusive: in a stream its own, else the global one. Default: the first.",
        ),
    ] = None,
    batch_size: Annotated[
        int, typer.Option("--batch-size", "-n", min=-1, help="Maximum number of messages. -1 is no limit.")
    ] = 1000,
    correlation: Annotated[
        str | None,
        typer.Option("--correlation", metavar="CATEGORY", help="Only replies to this category. With a category."),
    ] = None,
    member: Annotated[
        int | None,
        typer.Option("--consumer-group-member", metavar="N", help="Only this member's share. With a category."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--consumer-group-size", metavar="N", help="Number of members that share the category."),
    ] = None,
    where: Where = None,
    last: Annotated[bool, typer.Option("--last", help="Only the last message. With a stream.")] = False,
    type_: Annotated[
        str | None, typer.Option("--type", help="Only the last message of this type. With --last.")
    ] = None,
    message_id: Annotated[str | None, typer.Option("--id", help="Only the message with this id.")] = None,
    version: Version = None,
    at: At = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print messages of a store: of a stream by position, of a category in order of arrival.

    A message that no longer matches its stored digest is not printed; standard error names it.

    Exits 1 if the store can't be read or a message is broken, 2 if arguments are wrong.
    """
    of_category = (correlation, member, size)
    has_group = any(one is not None for one in of_category)
    if problem := _problem(name, last, type_, message_id, has_group, has_condition=where is not None):
        raise failure(problem, BAD_INPUT)
    with opened(store, version, at) as reader:
        if message_id is not None:
            messages = _only(reader.get_message(message_id))
        elif last and name is not None:
            messages = _only(reader.get_last_stream_message(name, type_))
        else:
            messages = _batch(reader, name, position, batch_size, of_category, where)
        print_messages(messages, output)


def _problem(
    name: str | None, last: bool, type_: str | None, message_id: str | None, of_category: bool, *, has_condition: bool
) -> str | None:
    """The error if arguments contradict each other, else None."""
    if has_condition and (message_id is not None or last):
        return "--where goes with neither --id nor --last"
    if message_id is not None and (name is not None or last):
        return "--id names one message; leave NAME and --last out"
    if last and (name is None or "-" not in name):
        return "--last takes a stream's NAME, such as order-123"
    if type_ is not None and not last:
        return "--type goes with --last"
    if of_category and (name is None or "-" in name):
        return "--correlation and --consumer-group-… take a category's NAME, such as order"
    return None


def _only(message: Message | None) -> Iterator[Message]:
    return iter([] if message is None else [message])


def _batch(
    reader: Reader,
    name: str | None,
    position: int | None,
    batch_size: int,
    of_category: tuple[str | None, int | None, int | None],
    where: str | None,
) -> Iterator[Message]:
    if name is None:
        return reader.get_messages(1 if position is None else position, batch_size, where)
    if "-" in name:
        return reader.get_stream_messages(name, position, batch_size, where)
    return reader.get_category_messages(name, position, batch_size, *of_category, where)
