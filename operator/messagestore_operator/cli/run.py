"""``messagestore run``: run manifests on this machine."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.interrupts import InterruptedRunError, interruptible
from messagestore_operator.cli.options import memory, moment, seconds
from messagestore_operator.cli.output import Output, echo
from messagestore_operator.cli.validate import BAD_INPUT, Filenames

if TYPE_CHECKING:
    from messagestore_operator.local import LocalSpark
    from messagestore_operator.manifests import LoadResult

FAILED = 1
"""Exit code if a resource did not succeed."""


def run(
    filename: Filenames,
    at: Annotated[
        datetime | None,
        typer.Option(
            "--at", metavar="TIME", parser=moment, help="Current time for all time rules (RFC 3339). Default: now."
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Output format of the resources and their status.")
    ] = Output.TABLE,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            metavar="DURATION",
            parser=seconds,
            show_default="60s",
            help="How long to wait for a table that another run uses.",
        ),
    ] = 60.0,
    driver_memory: Annotated[
        str, typer.Option("--driver-memory", metavar="SIZE", parser=memory, help="Memory of Spark's Java process.")
    ] = "2g",
    cores: Annotated[
        int | None, typer.Option("--cores", min=1, max=1024, help="Cores that Spark works on. Default: all.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show Spark's own log too.")] = False,
) -> None:
    """Run manifests on this machine, with tables under file:///.

    Resources run in the order of the files: a stream ingests all that has arrived, a policy runs once on each of its
    streams, a replay runs to its end. The next call continues from the tables.

    Exits 0 if all resources succeeded, 1 if one did not, 2 if a manifest is wrong; then nothing was changed.
    """
    result = _checked(filename)
    if verbose:
        logging.basicConfig(level=logging.INFO)
    # Imported late: importing Spark takes longer than finding a wrong manifest.
    from messagestore_operator.local import LocalSpark

    spark = LocalSpark(cores or os.cpu_count() or 1, driver_memory, verbose=verbose)
    if not _carry_out(result, spark, at, output, wait):
        raise typer.Exit(FAILED)


def _checked(filename: list[str]) -> LoadResult:
    """The manifests; prints all problems and exits if there are any."""
    from messagestore_operator.local.run import local_problems
    from messagestore_operator.manifests import load

    result = load(filename)
    problems = [*result.problems, *local_problems(result)]
    for warning in result.warnings:
        if warning not in problems:
            echo(f"warning: {warning}", err=True)
    for problem in problems:
        echo(str(problem), err=True)
    if problems:
        raise typer.Exit(BAD_INPUT)
    return result


def _carry_out(result: LoadResult, spark: LocalSpark, at: datetime | None, output: Output, wait: float) -> bool:
    from messagestore_operator.cli.console import console
    from messagestore_operator.cli.resources import printed
    from messagestore_operator.local import LocalRun, SparkStartError

    try:
        with interruptible(spark.abandon):
            ended = LocalRun(result, spark, console(), wait, at).run()
    except InterruptedRunError as interruption:
        typer.echo(f"stopped by {interruption}; run it again and it goes on from there", err=True)
        raise typer.Exit(interruption.exit_code) from None
    except SparkStartError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None
    finally:
        spark.close()
    typer.echo(printed([one.resource for one in ended], output, at or datetime.now(UTC)), nl=False)
    return all(one.well for one in ended)
