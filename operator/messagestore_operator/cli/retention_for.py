"""``messagestore retention-for``: the RetentionPolicy that removes single messages."""

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from messagestore_core.bounds import MOST_IDS, MOST_RULES
from messagestore_operator.cli.output import FAILED, echo, failure, print_yaml
from messagestore_operator.cli.store import Store, opened
from messagestore_operator.names import API_VERSION, named_after

_MOST_BYTES = 900_000
"""Of ids: a run has them in a ConfigMap, which holds 1 MiB."""


def _of_one_policy(message_ids: list[str]) -> list[str]:
    most = MOST_IDS * MOST_RULES
    if len(message_ids) > most or sum(len(one.encode(errors="replace")) + 3 for one in message_ids) > _MOST_BYTES:
        raise typer.BadParameter(f"one policy has at most {most} ids, and {_MOST_BYTES} bytes: make several policies")
    return message_ids


MessageIds = Annotated[
    list[str],
    typer.Argument(metavar="ID...", show_default=False, help="The messages' ids.", callback=_of_one_policy),
]


def retention_for(
    store: Store,
    message_ids: MessageIds,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase them: no archive, and a late copy is not stored again.")
    ] = False,
) -> None:
    """Print a RetentionPolicy that removes these messages once its preview is approved; holds keep what they cover.

    Exits 1 if one of the messages is not in the store, or the store can't be read.
    """
    with opened(store) as reader:
        absent = [one for one in message_ids if reader.get_message(one) is None]
        owner = reader.owner
    if owner is None:
        raise failure(f"{store} has no marker that names its MessageStream")
    for one in absent:
        echo(f"error: {one}: there is no such message", err=True)
    if absent:
        raise typer.Exit(FAILED)
    print_yaml(removal(*owner, message_ids, erase=erase))


def removal(namespace: str, stream: str, message_ids: Sequence[str], *, erase: bool) -> dict[str, Any]:
    """A RetentionPolicy that removes messages of a stream once its preview is approved, with a name of its own."""
    digest = hashlib.sha256("\n".join(sorted(message_ids)).encode()).hexdigest()[:8]
    rules = [
        {
            "name": f"chosen-{start // MOST_IDS + 1}" if start else "chosen",
            "match": {"messageIds": list(message_ids[start : start + MOST_IDS])},
            **({"erase": True} if erase else {}),
        }
        for start in range(0, len(message_ids), MOST_IDS)
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "RetentionPolicy",
        "metadata": {"name": named_after(stream, digest), "namespace": namespace},
        "spec": {
            "streamRefs": [{"name": stream}],
            "trigger": {"manual": {}},
            "mode": "Enforce",
            "approval": "Required",
            "rules": rules,
        },
    }
