"""``messagestore consumers``: how far a store's consumers are, and how to move or remove their cursors."""

from typing import Annotated, Literal

import typer

from messagestore_operator.cli.output import Column, Output, OutputOption, document_of, print_table, printed
from messagestore_operator.cli.store import Store, opened

consumers = typer.Typer(
    name="consumers",
    no_args_is_help=True,
    help="Show the consumers of a store, move their cursors, or remove their state (docs/consuming.md).",
)

Name = Annotated[str, typer.Argument(metavar="NAME", show_default=False, help="The consumers' name.")]
State = Annotated[
    str | None,
    typer.Option(
        "--state", metavar="URI", help="The folder below which each name has its cursors. Default: that in the store."
    ),
]


@consumers.command("list")
def list_(store: Store, state: State = None, output: OutputOption = Output.TABLE) -> None:
    """Print the consumers of a store: the smallest cursor of each name, what lies behind it, and who is running.

    Exits 1 if the store or the state can't be read.
    """
    with opened(store):
        from messagestore.consuming import consumptions

        each = consumptions(store, state)
    if not printed(output, {"consumers": [document_of(one) for one in each]}):
        columns = [Column(name) for name in ("NAME", "CURSOR", "BEHIND", "SLOTS", "CONSUMERS", "LEASED UNTIL")]
        cells = [
            (one.name, one.global_position, one.behind, one.slots, one.consumers, one.leased_until) for one in each
        ]
        print_table(columns, cells)


@consumers.command("reset")
def reset_(
    store: Store,
    name: Name,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="START",
            show_default=False,
            help="Where they go on: Beginning, Now, or the global position of the first message to be handled.",
        ),
    ],
    state: State = None,
) -> None:
    """Have the consumers of a name go on elsewhere, while none of them runs.

    Exits 1 if one has a lease or there are none, 2 if START is none.
    """
    with opened(store):
        from messagestore.consuming import reset

        group = reset(store, name, _start(to), state)
    typer.echo(f"consumer {name} goes on behind global position {group.start}")


@consumers.command("delete")
def delete_(store: Store, name: Name, state: State = None) -> None:
    """Remove the cursors of a name, while none of its consumers runs; the next one begins where its start says.

    Exits 1 if one has a lease, or there are none.
    """
    with opened(store):
        from messagestore.consuming import delete

        delete(store, name, state)
    typer.echo(f"the state of consumer {name} is removed")


def _start(text: str) -> Literal["Beginning", "Now"] | int:
    if text == "Beginning":
        return "Beginning"
    if text == "Now":
        return "Now"
    if not (text.isascii() and text.isdigit() and len(text) < 17):
        raise typer.BadParameter("must be Beginning, Now or a global position", param_hint="--to")
    return int(text)
