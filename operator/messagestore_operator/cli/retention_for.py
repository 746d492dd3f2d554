"""``messagestore retention-for``: the RetentionPolicy that removes single messages."""

from __future__ import annotations

import hashlib
from typing import Annotated

import typer

from messagestore_operator.cli.output import echo, print_yaml
from messagestore_operator.cli.store import FAILED, Store, opened


def retention_for(
    store: Store,
    message_ids: Annotated[list[str], typer.Argument(metavar="ID...", show_default=False, help="The messages' ids.")],
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase them: no archive, and a late copy is not stored again.")
    ] = False,
) -> None:
    """Print a RetentionPolicy that removes these messages once its preview is approved; holds keep what they cover.

    Exits 1 if one of the messages is not in the store, or the store can't be read.
    """
    from messagestore_operator.api import API_VERSION

    with opened(store) as reader:
        absent = [one for one in message_ids if reader.get_message(one) is None]
        owner = reader.owner
    if owner is None:
        echo(f"error: {store} has no marker that names its MessageStream", err=True)
        raise typer.Exit(FAILED)
    for one in absent:
        echo(f"error: {one}: there is no such message", err=True)
    if absent:
        raise typer.Exit(FAILED)
    namespace, name = owner
    digest = hashlib.sha256("\n".join(sorted(message_ids)).encode()).hexdigest()[:8]
    rule = {"name": "chosen", "match": {"messageIds": message_ids}, **({"erase": True} if erase else {})}
    print_yaml(
        {
            "apiVersion": API_VERSION,
            "kind": "RetentionPolicy",
            "metadata": {"name": f"{name[:40]}-{digest}", "namespace": namespace},
            "spec": {
                "streamRefs": [{"name": name}],
                "trigger": {"manual": {}},
                "mode": "Enforce",
                "approval": "Required",
                "rules": [rule],
            },
        }
    )
