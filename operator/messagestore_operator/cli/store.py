"""The shared part of commands that read a store: options, opening it, and reporting errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.options import moment
from messagestore_operator.cli.output import BAD_INPUT, FAILED, echo, failure

if TYPE_CHECKING:
    from messagestore.errors import BrokenMessageError
    from messagestore.reader import Reader

Store = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        show_default=False,
        help="The store's folder, spec.table.uri: s3a://…, file:///… or a path. Object storage is reached by AWS' "
        "variables: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_CA_BUNDLE.",
    ),
]
Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME", show_default=False, help="A stream (order-123) or a category (order). Default: all messages."
    ),
]
Version = Annotated[
    int | None,
    typer.Option(
        "--version", metavar="VERSION", min=0, help="Read this version of table messages. Default: the newest."
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only if this is true: \"type = 'Placed' AND retries > 2\" (docs/filters.md).",
    ),
]
At = Annotated[
    datetime | None,
    typer.Option("--at", metavar="TIME", parser=moment, help="Read the store as it was at this time (RFC 3339)."),
]


_EXTRAS = {"confluent_kafka": "library,kafka", "jinja2": "library,page", "matplotlib": "library,page"}
"""The extras that bring packages; all others come with the library."""


def _missing(error: ImportError) -> typer.Exit:
    extra = _EXTRAS.get(str(error.name).partition(".")[0], "library")
    return failure(f"{error.name} is missing; in a clone of the project: pip install '.[{extra}]'")


@contextmanager
def reporting() -> Iterator[None]:
    """Report errors of the library, and exit with their code."""
    try:
        from messagestore.errors import ArgumentError, MessageStoreError
    except ImportError as error:
        raise _missing(error) from None
    try:
        yield
    except ImportError as error:
        raise _missing(error) from None
    except ArgumentError as error:
        raise failure(str(error), BAD_INPUT) from None
    except MessageStoreError as error:
        raise failure(str(error)) from None


@contextmanager
def opened(uri: str, version: int | None = None, at: datetime | None = None) -> Iterator[Reader]:
    """A reader of a store. Broken messages are reported as they are found, and make the exit code 1."""
    broken: list[BrokenMessageError] = []

    def report_broken(error: BrokenMessageError) -> None:
        broken.append(error)
        echo(f"broken: {error}", err=True)

    with reporting():
        from messagestore.reader import Reader

        with Reader(uri, version=version, at=at, on_broken=report_broken) as store:
            yield store
    if broken:
        raise typer.Exit(FAILED)
