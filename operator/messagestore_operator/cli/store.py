"""The shared part of commands that read a store: options, opening it, and reporting errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.options import moment
from messagestore_operator.cli.output import echo
from messagestore_operator.cli.validate import BAD_INPUT

if TYPE_CHECKING:
    from messagestore.errors import BrokenMessageError
    from messagestore.reader import Reader

FAILED = 1
"""Exit code if the store can't be read or a message in it is broken."""

Store = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        show_default=False,
        help="The store's folder, spec.table.uri: s3a://…, file:///… or a path. Object storage is reached by AWS' "
        "variables: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_CA_BUNDLE.",
    ),
]
Version = Annotated[
    int | None,
    typer.Option(
        "--version", metavar="VERSION", min=0, help="Read this version of table messages. Default: the newest."
    ),
]
At = Annotated[
    datetime | None,
    typer.Option("--at", metavar="TIME", parser=moment, help="Read the store as it was at this time (RFC 3339)."),
]


@contextmanager
def opened(uri: str, version: int | None = None, at: datetime | None = None) -> Iterator[Reader]:
    """A reader of a store. Broken messages are reported as they are found, and make the exit code 1."""
    try:
        from messagestore.errors import ArgumentError, MessageStoreError
        from messagestore.reader import Reader
    except ImportError as error:
        typer.echo(f"error: {error.name} is missing: pip install 'message-store-operator[library]'", err=True)
        raise typer.Exit(FAILED) from None
    broken: list[BrokenMessageError] = []

    def report_broken(error: BrokenMessageError) -> None:
        broken.append(error)
        echo(f"broken: {error}", err=True)

    try:
        with Reader(uri, version=version, at=at, on_broken=report_broken) as store:
            yield store
    except ArgumentError as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from None
    except MessageStoreError as error:
        echo(f"error: {error}", err=True)
        raise typer.Exit(FAILED) from None
    if broken:
        raise typer.Exit(FAILED)
