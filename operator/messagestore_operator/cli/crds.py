"""``messagestore crds``: the CustomResourceDefinitions of the three kinds."""

from pathlib import Path
from typing import Annotated

import typer

from messagestore_operator.cli.output import writing


def crds(
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", metavar="FOLDER", help="Write one file per kind into this folder instead of printing."
        ),
    ] = None,
) -> None:
    """Print the CustomResourceDefinitions as YAML, for kubectl apply -f -."""
    from messagestore_operator.api import crd

    if output is not None:
        with writing(output):
            crd.write(output)
        return
    typer.echo("---\n".join(crd.files().values()), nl=False)
