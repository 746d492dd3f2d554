"""``messagestore validate``: report all problems of manifests, and change nothing."""

from typing import Annotated

import typer

from messagestore_operator.cli.output import BAD_INPUT, echo

Filenames = Annotated[
    list[str],
    typer.Option(
        "--filename", "-f", metavar="PATH", help="A file, a folder of files, or - for standard input. Repeatable."
    ),
]


def validate(filename: Filenames) -> None:
    """Check manifests and name every problem with its file, line and field.

    Exits 0 if all are valid, else 2. References to resources that the files don't have are only warnings, because a
    cluster may have them.
    """
    from messagestore_operator.manifests.load import load

    result = load(filename)
    for warning in result.warnings:
        echo(f"warning: {warning}", err=True)
    problems = [*result.problems, *(problem for item in result.loaded for problem in item.unsupported())]
    for problem in problems:
        echo(str(problem), err=True)
    if problems:
        raise typer.Exit(BAD_INPUT)
    for item in result.loaded:
        kind, _, name = item.resource.identity
        echo(f"{item.document.file}: {kind}/{name} is valid")
