"""``messagestore operator``: the command of the operator's pod."""

from __future__ import annotations

import gc
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_core.logs import LineFormatter, LogFormat

if TYPE_CHECKING:
    from messagestore_operator.settings import Settings


def operator(
    settings: Annotated[
        Path | None, typer.Option("--settings", metavar="FILE", help="YAML file with the operator's settings.")
    ] = None,
    namespace: Annotated[
        list[str] | None, typer.Option("--namespace", "-n", metavar="NAME", help="Watch this namespace. Repeatable.")
    ] = None,
    log_format: Annotated[
        LogFormat | None, typer.Option("--log-format", help="Lines of the log, of drivers too. Default: text.")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log more.")] = False,
) -> None:
    """Run the operator against a cluster until it is stopped.

    It finds the API server by KUBECONFIG or, in a pod, by its service account. Variables set settings too, such as
    MESSAGESTORE_OPERATOR_SPARK__IMAGE.
    """
    from messagestore_operator.settings import SettingsProblemError, load

    try:
        loaded = load(settings, os.environ, {"watchNamespaces": namespace or None, "logFormat": log_format})
        if not loaded.spark.image:
            raise SettingsProblemError("spark.image: must name the image of driver and executors; there is no default")
    except SettingsProblemError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    lines = logging.StreamHandler()
    lines.setFormatter(LineFormatter(loaded.log_format))
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[lines])
    if not verbose:
        # Kopf logs each event that it passes on.
        logging.getLogger("kopf").setLevel(logging.WARNING)
    raise typer.Exit(_serve(loaded))


def _serve(settings: Settings) -> int:
    # Only this command needs kopf and a client, and they take a second to load.
    import asyncio

    from messagestore_operator.decide.decision import decide
    from messagestore_operator.service import ServiceError, run

    _collect_garbage_less_often()
    try:
        asyncio.run(run(settings, decide))
    except ServiceError as error:
        typer.echo(f"error: {error}", err=True)
        return 1
    return 0


def _collect_garbage_less_often() -> None:
    """Search for cycles less often: the cache has none, and searching it takes a quarter of the process's time."""
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
