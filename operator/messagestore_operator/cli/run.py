"""``messagestore run``: run manifests on this machine."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from messagestore_operator.cli.interrupts import InterruptedRunError, interruptible
from messagestore_operator.cli.options import memory, moment, seconds
from messagestore_operator.cli.output import BAD_INPUT, FAILED, Output, echo
from messagestore_operator.cli.validate import Filenames

if TYPE_CHECKING:
    from messagestore_operator.local.spark import LocalSpark
    from messagestore_operator.manifests.load import LoadResult


@contextmanager
def _stoppable(stop: Callable[[], None] = lambda: None, advice: str = "") -> Iterator[None]:
    """Exit with words if a signal ends the block."""
    try:
        with interruptible(stop):
            yield
    except InterruptedRunError as interruption:
        typer.echo(f"stopped by {interruption}{advice}", err=True)
        raise typer.Exit(interruption.exit_code) from None


@_stoppable()
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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only tell what a run would store, set aside, remove and send, and why.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=0, metavar="N", help="With --dry-run: how many messages of each to print.")
    ] = 10,
    payloads: Annotated[
        bool, typer.Option("--payloads", help="With --dry-run: print payloads and the bytes of dead letters too.")
    ] = False,
    list_to: Annotated[
        Path | None,
        typer.Option(
            "--list-to",
            metavar="FILE",
            help="With --dry-run: write all messages that policies and replays would take to a new file of JSON lines.",
        ),
    ] = None,
) -> None:
    """Run manifests on this machine, with tables under file:///.

    Resources run in the order of the files: a stream ingests all that has arrived, a policy runs once on each of its
    streams, a replay runs to its end. The next call continues from the tables.

    With --dry-run nothing is stored, removed, moved or sent: an ingest is carried out on a copy of its store, and its
    counts, dead letters by reason and first messages are printed; of policies and replays the messages that they would
    take.

    Exits 0 if all resources succeeded, or would, 1 if one did not, 2 if a manifest is wrong; then nothing was changed.
    """
    if not dry_run and (payloads or list_to is not None):
        raise typer.BadParameter("--payloads and --list-to need --dry-run")
    result = _checked(filename)
    if verbose:
        logging.basicConfig(level=logging.INFO)
    # Imported late: importing Spark takes longer than finding a wrong manifest.
    from messagestore_operator.local.spark import LocalSpark

    spark = LocalSpark(cores or os.cpu_count() or 1, driver_memory, verbose=verbose)
    if dry_run:
        well = _try_out(result, spark, at, output, wait, _Listing(limit, payloads, list_to))
    else:
        well = _carry_out(result, spark, at, output, wait)
    if not well:
        raise typer.Exit(FAILED)


class _Listing(NamedTuple):
    """What a dry run lists of messages."""

    limit: int
    payloads: bool
    file: Path | None


def _checked(filename: list[str]) -> LoadResult:
    """The manifests; prints all problems and exits if there are any."""
    from messagestore_operator.local.run import local_problems
    from messagestore_operator.manifests.load import load

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
    from messagestore_operator.local.run import LocalRun

    with _closing(spark, "; run it again and it goes on from there"):
        ended = LocalRun(result, spark, console(), wait, at).run()
    typer.echo(printed([one.resource for one in ended], output, at or datetime.now(UTC)), nl=False)
    return all(one.well for one in ended)


def _try_out(
    result: LoadResult, spark: LocalSpark, at: datetime | None, output: Output, wait: float, listing: _Listing
) -> bool:
    from messagestore_jobs.driver.listing import Wanted
    from messagestore_operator.cli.console import console
    from messagestore_operator.cli.dry_run import lines_to, print_tried, scratch_folder
    from messagestore_operator.local.dry_run import DryRun
    from messagestore_operator.local.scratch import Scratch

    said = console()
    with lines_to(listing.file) as each, scratch_folder() as folder, _closing(spark, ""):
        wanted = Wanted(listing.limit, listing.payloads, each)
        scratch = Scratch(folder, wait, said.say)
        tried = DryRun(result, spark, said, wait, at, scratch=scratch, wanted=wanted).try_out()
    print_tried(tried, output)
    return all(one.error is None for one in tried)


@contextmanager
def _closing(spark: LocalSpark, advice: str) -> Iterator[None]:
    """End Spark after the block; exits with words if it was interrupted, or Spark didn't start."""
    from messagestore_operator.local.spark import SparkStartError

    try:
        with _stoppable(spark.abandon, advice):
            yield
    except SparkStartError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(FAILED) from None
    finally:
        spark.close()
