"""The commands of ``kubectl messagestore``; this only registers them."""

from __future__ import annotations

import typer

from messagestore_operator.cli.options import options
from messagestore_operator.plugin import replay
from messagestore_operator.plugin.act import redrive, resume, suspend, trigger
from messagestore_operator.plugin.dead_letters import dead_letters
from messagestore_operator.plugin.page import page
from messagestore_operator.plugin.read import history, message, messages, verify
from messagestore_operator.plugin.removal import approve, delete
from messagestore_operator.plugin.report import report
from messagestore_operator.plugin.retention import holds, preview
from messagestore_operator.plugin.runs import cost, list_runs, logs
from messagestore_operator.plugin.status import status

app = typer.Typer(
    name="kubectl messagestore",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    help="Message stores in a cluster: look at streams, retention policies and replays, act on them, and read stores, "
    "with your own rights. Exits 0 if it is done, 1 if it failed or was refused, 2 if what you gave is wrong.",
)
app.command()(status)
app.command("runs")(list_runs)
app.command()(logs)
app.command()(preview)
app.command()(holds)
app.command()(dead_letters)
app.command()(cost)
app.command()(trigger)
app.command()(suspend)
app.command()(resume)
app.command()(approve)
app.command()(redrive)
app.add_typer(replay.app)
app.command()(delete)
app.command()(messages)
app.command()(message)
app.command()(history)
app.command()(verify)
app.command()(page)
app.command()(report)
app.callback()(options)
