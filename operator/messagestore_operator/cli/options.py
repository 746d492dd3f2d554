"""Options of several commands, and values of options that typer has no types for."""

import re
from datetime import datetime
from typing import Annotated

import typer

from messagestore_core.clock import in_utc

_SHORT = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, None: 1}
_MOST_DAYS = 99_999
"""No process can sleep for three times as long."""
_MEMORY = re.compile(r"[1-9]\d{0,5}[mg]", re.IGNORECASE)


def moment(text: str) -> datetime:
    """A time by RFC 3339, in UTC."""
    try:
        if "T" in text.upper() and datetime.fromisoformat(text).tzinfo is not None:
            return in_utc(text)
    except ValueError:
        pass
    raise typer.BadParameter("must be a time by RFC 3339, such as 2026-04-01T00:00:00Z")


def seconds(text: str | float) -> float:
    """A duration such as 90s, 5m, 1h or PT90S, in seconds; typer passes the option's default unparsed."""
    if isinstance(text, float):
        return text
    short = _SHORT.fullmatch(text)
    span = float(short[1]) * _SECONDS[short[2]] if short else _iso_seconds(text)
    if span > _MOST_DAYS * 86400:
        raise typer.BadParameter(f"must be at most {_MOST_DAYS} days")
    return span


def _iso_seconds(text: str) -> float:
    from pydantic_core import PydanticCustomError

    from messagestore_operator.api.scalars import Duration

    try:
        return Duration.parse(text).timedelta.total_seconds()
    except PydanticCustomError:
        raise typer.BadParameter("must be a duration such as 90s, 5m or PT90S; 0 is not to wait at all") from None


def memory(text: str) -> str:
    """An amount of memory in Java's form."""
    if not _MEMORY.fullmatch(text):
        raise typer.BadParameter("must be an amount of memory such as 512m or 2g")
    return text


def _print_version(context: typer.Context, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"{context.command.name} {version('message-store-operator')}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


MessageId = Annotated[str, typer.Argument(metavar="ID", show_default=False, help="The message's id.")]
Statuses = Annotated[
    list[str] | None, typer.Option("--status", metavar="STATUS", help="Only with this status. Repeatable.")
]
Types = Annotated[list[str] | None, typer.Option("--type", metavar="TYPE", help="Only of this type. Repeatable.")]
ErrorText = Annotated[
    str | None, typer.Option("--error", metavar="TEXT", help="Only if the error has this text in it.")
]
CorrelationId = Annotated[
    str | None, typer.Option("--correlation-id", metavar="ID", help="Only with this correlation identifier.")
]
Since = Annotated[
    datetime | None,
    typer.Option("--since", metavar="TIME", parser=moment, help="Only if its time is not before this (RFC 3339)."),
]
From = Annotated[
    int | None, typer.Option("--position", "-p", help="Global position to begin with, inclusive. Default: the newest.")
]
OldestFirst = Annotated[bool, typer.Option("--oldest-first", help="In order of arrival. Default: the newest first.")]
