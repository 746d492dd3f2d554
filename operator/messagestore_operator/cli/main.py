"""The entry point of the command line, which only registers the commands."""

import typer

from messagestore_operator.cli.audit import audit
from messagestore_operator.cli.consumers import consumers
from messagestore_operator.cli.crds import crds
from messagestore_operator.cli.dead_letters import dead_letters
from messagestore_operator.cli.find import messages
from messagestore_operator.cli.get import get
from messagestore_operator.cli.history import history, outcome
from messagestore_operator.cli.init import init
from messagestore_operator.cli.offsets import offsets
from messagestore_operator.cli.operator import operator
from messagestore_operator.cli.options import options
from messagestore_operator.cli.page import page
from messagestore_operator.cli.repair import repair
from messagestore_operator.cli.retention_for import retention_for
from messagestore_operator.cli.retry import pause, resume, retry
from messagestore_operator.cli.run import run
from messagestore_operator.cli.stats import stats
from messagestore_operator.cli.tail import tail
from messagestore_operator.cli.validate import validate
from messagestore_operator.cli.verify import verify

app = typer.Typer(
    name="messagestore",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Message stores on Delta Lake tables: keep each message once, in order and queryable; remove messages by "
    "rules; send stored messages again.",
    rich_markup_mode="markdown",
    epilog="""
Examples:

- `messagestore init s3a://landing/orders -o stream.yaml`
- `messagestore validate -f stream.yaml -f policy.yaml`
- `messagestore run -f manifests/ --at 2026-04-06T00:00:00Z`
- `messagestore run -f stream.yaml -o json`
- `messagestore get s3a://lake/orders order-123`
- `messagestore messages s3a://lake/orders --status FAILED --error time-out`
- `messagestore tail s3a://lake/orders order`
- `messagestore page s3a://lake/orders -o store.html`
- `messagestore crds | kubectl apply --server-side -f -`
""",
)
app.command()(init)
app.command()(validate)
app.command()(run)
app.command()(get)
app.command()(messages)
app.command()(outcome)
app.command()(history)
app.command()(tail)
app.command()(stats)
app.command()(page)
app.command()(dead_letters)
app.command()(audit)
app.command()(retry)
app.command()(pause)
app.command()(resume)
app.command()(offsets)
app.command()(retention_for)
app.add_typer(consumers)
app.command()(verify)
app.command()(repair)
app.command()(crds)
app.command()(operator)
app.callback()(options)
