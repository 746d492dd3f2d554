"""``messagestore page``: a page about stores, as one HTML file."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.options import moment
from messagestore_operator.cli.output import BAD_INPUT, echo, writing
from messagestore_operator.cli.store import opened, reporting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from messagestore_operator.api import Resource


def page(
    stores: Annotated[
        list[str], typer.Argument(metavar="STORE...", show_default=False, help="The stores' folders, as for stats.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write; it may be there.")
    ] = Path("store.html"),
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policies",
            metavar="PATH",
            help="Manifests of RetentionPolicies, and of MessageStreams for their holds: a file, a folder of files, "
            "or - for standard input. Repeatable.",
        ),
    ] = None,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Show the records of the dead letters that are samples.")
    ] = False,
    at: Annotated[
        datetime | None,
        typer.Option("--at", metavar="TIME", parser=moment, help="Current time for policies (RFC 3339). Default: now."),
    ] = None,
) -> None:
    """Write a page about stores: one HTML file, which loads nothing from elsewhere.

    It shows messages by day, category, type and status, sizes, batches, dead letters, what policies would remove in the
    next 30 days, and the audit; each picture has a table. Reads a few narrow columns of all messages.
    """
    resources = _resources(policies or [])
    now = at or datetime.now(UTC)
    with reporting():
        from importlib.metadata import version

        from messagestore.figures import figures
        from messagestore_operator.page.document import html, store_page
        from messagestore_operator.page.forecast import applied

        pages = []
        for store in stores:
            with opened(store) as reader:
                applying = applied(resources, reader.owner)
                read = figures(reader, [one.rules_and_holds for one in applying], now, payloads=payloads)
                pages.append(store_page(store, read, applying, now, payloads=payloads))
        text = html(pages, now, version("message-store-operator"))
    write_page(output, text)


def write_page(file: Path, text: str) -> None:
    """Write a page, and print its path."""
    with writing(file):
        file.write_text(text, encoding="utf-8")
    echo(str(file.absolute()))


def _resources(paths: list[str]) -> Sequence[Resource]:
    """The resources of manifests; prints all problems and exits if there are any."""
    if not paths:
        return ()
    from messagestore_operator.manifests.load import load

    result = load(paths)
    for problem in result.problems:
        echo(str(problem), err=True)
    if result.problems:
        raise typer.Exit(BAD_INPUT)
    return result.resources
