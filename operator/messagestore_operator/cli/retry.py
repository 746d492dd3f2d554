"""``messagestore retry``, ``pause`` and ``resume``: say when messages that have failed are tried again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_core.bounds import LAST_MOMENT
from messagestore_operator.cli.options import moment
from messagestore_operator.cli.output import FAILED, echo, shown_time
from messagestore_operator.cli.store import Store, opened

if TYPE_CHECKING:
    from messagestore.message import Message
    from messagestore.writer import Writer

Ids = Annotated[list[str], typer.Argument(metavar="ID...", show_default=False, help="The messages' ids.")]
Updates = Annotated[
    str,
    typer.Option(
        "--updates",
        metavar="URI",
        show_default=False,
        help="The folder that the stream reads status updates from, spec.lifecycle.source.files.uri.",
    ),
]


def retry(
    store: Store,
    message_ids: Ids,
    updates: Updates,
    at: Annotated[
        datetime | None,
        typer.Option("--at", metavar="TIME", parser=moment, help="When they are due (RFC 3339). Default: at once."),
    ] = None,
) -> None:
    """Make failed messages due, also paused ones: write an update RETRY for each.

    One that is out of retries gets one more try. The stream's next run reads the updates. If one of the messages can't
    be tried again, nothing is written.

    Exits 1 if so, or if the store can't be read or the folder not be written.
    """
    _write(store, message_ids, updates, _as_before(at), lambda writer, message_id: writer.retry(message_id, at=at))


def pause(store: Store, message_ids: Ids, updates: Updates) -> None:
    """Let failed messages wait that are to be retried, until they are resumed: write an update PAUSE for each.

    The stream's next run reads the updates. If one of the messages is not to be retried, nothing is written.

    Exits 1 if so, or if the store can't be read or the folder not be written.
    """
    _write(store, message_ids, updates, _not_to_be_retried, lambda writer, message_id: writer.pause(message_id))


def resume(store: Store, message_ids: Ids, updates: Updates) -> None:
    """Make paused messages due at once: write an update RESUME for each.

    The stream's next run reads the updates. If one of the messages is not paused, nothing is written.

    Exits 1 if so, or if the store can't be read or the folder not be written.
    """
    _write(store, message_ids, updates, _not_paused, lambda writer, message_id: writer.resume(message_id))


def _write(
    store: str,
    message_ids: list[str],
    updates: str,
    problem: Callable[[Message], str | None],
    write: Callable[[Writer, str], None],
) -> None:
    from messagestore.writer import Writer

    message_ids = list(dict.fromkeys(message_ids))
    with opened(store) as reader:
        wrong = [f"{one}: {why}" for one in message_ids if (why := _unchanged(reader.get_message(one), problem))]
        for line in wrong:
            echo(f"error: {line}", err=True)
        if wrong:
            raise typer.Exit(FAILED)
        with Writer(updates, updates) as writer:
            _warn_of_another_place(updates, reader.updates_source())
            for message_id in message_ids:
                write(writer, message_id)
    what, them = ("1 update", "it") if len(message_ids) == 1 else (f"{len(message_ids)} updates", "them")
    typer.echo(f"{what} written; the stream's next run reads {them}")


def _warn_of_another_place(updates: str, source: str | None) -> None:
    """Only the stream's manifest says where it reads updates; a folder that none came from may be a mistake."""
    from messagestore.location import Location
    from messagestore_core.store.objects import is_below

    with closing(Location(updates)) as location:
        is_known = source is not None and is_below(location.uri, source)
    if not is_known:
        last = f", the last were from {source}" if source else ""
        echo(
            f"warning: no run has read updates from {updates} yet{last}; is it spec.lifecycle.source.files.uri?",
            err=True,
        )


def _unchanged(message: Message | None, problem: Callable[[Message], str | None]) -> str | None:
    """Why an update would not change a message; None if it would."""
    if message is None:
        return "there is no such message"
    if message.status != "FAILED":
        return f"its status is {message.status}, only a message that has failed is tried again"
    return problem(message)


def _as_before(at: datetime | None) -> Callable[[Message], str | None]:
    now = datetime.now(UTC)
    due = max(at or now, now)

    def problem(message: Message) -> str | None:
        before = message.next_retry_at
        return f"it is due at {shown_time(before)} already" if before and max(before, now) == due else None

    return problem


def _not_to_be_retried(message: Message) -> str | None:
    if message.next_retry_at is None:
        return "it is out of retries, and waits for none"
    return "it is paused already" if message.next_retry_at == LAST_MOMENT else None


def _not_paused(message: Message) -> str | None:
    return None if message.next_retry_at == LAST_MOMENT else "it is not paused"
