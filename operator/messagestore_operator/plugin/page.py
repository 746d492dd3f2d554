"""``kubectl messagestore page``: a page about a store in the cluster, as one HTML file."""

from __future__ import annotations

from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.output import echo
from messagestore_operator.cli.page import write_page
from messagestore_operator.cli.store import reporting
from messagestore_operator.kube.objects import at, name_of, namespace_of
from messagestore_operator.plugin.find import NOUNS, POLICY, STREAM, StreamName, find, plural_of
from messagestore_operator.plugin.kubectl import Document, Kubectl
from messagestore_operator.plugin.options import reaching
from messagestore_operator.plugin.reading import PodOptions, answer_of, by_pod, naming_rights

if TYPE_CHECKING:
    from collections.abc import Iterator

    from messagestore_operator.api import Resource


@reaching
@by_pod
def page(
    kubectl: Kubectl,
    pod: PodOptions,
    stream: StreamName,
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="The file to write; it may be there.")
    ] = Path("store.html"),
    payloads: Annotated[
        bool, typer.Option("--payloads", help="Show the records of the dead letters that are samples.")
    ] = False,
) -> None:
    """Write a page about a stream's store, as `messagestore page` does: one HTML file, which loads nothing.

    Its figures are read as `messages` reads, and drawn here, which takes the extras library and page. It shows what the
    policies of the namespace would remove in the next 30 days.
    """
    with reporting():
        from messagestore.figures import Figures
        from messagestore_operator.page.document import html, store_page
        from messagestore_operator.page.forecast import applied

    now = datetime.now(UTC)
    with naming_rights():
        document = find(kubectl, STREAM, stream)
        documents = kubectl.items(plural_of(POLICY))
    policies = applied(list(_legible([document, *documents])), (namespace_of(document), name_of(document)))
    question = {
        "ask": "figures",
        "policies": [one.rules_and_holds.model_dump(mode="json", by_alias=True) for one in policies],
        "asOf": now.isoformat(),
        "payloads": payloads,
    }
    with answer_of(kubectl, pod, stream, question) as lines:
        (figures,) = [Figures.model_validate_json(text) for word, text in lines if word == "figures"]
    uri = str(at(document, "spec", "table", "uri"))
    shown = store_page(uri, figures, policies, now, payloads=payloads)
    write_page(file, html([shown], now, version("message-store-operator")))


def _legible(documents: list[Document]) -> Iterator[Resource]:
    """The resources, but those that this release can't read, such as one of a later release; each is told."""
    from pydantic import ValidationError

    from messagestore_operator.api.kinds import parse_stored
    from messagestore_operator.manifests.problem import message_of, path_text

    for document in documents:
        try:
            yield parse_stored(document)
        except ValidationError as error:
            why = "; ".join(f"{path_text(line['loc'])}: {message_of(line)}" for line in error.errors())
            echo(f"warning: {NOUNS[document['kind']]} {name_of(document)} is left out: {why}", err=True)
