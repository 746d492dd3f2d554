"""Arguments that name kinds and resources, with what a shell may complete them to."""

from collections.abc import Callable
from typing import Annotated

import typer

from messagestore_operator.plugin.find import NOUNS, POLICY, REPLAY, STREAM, kind_of, plural_of
from messagestore_operator.plugin.kubectl import KubectlError
from messagestore_operator.plugin.options import UserError, kubectl_of


def _kinds(incomplete: str) -> list[str]:
    return [noun for noun in NOUNS.values() if noun.startswith(incomplete)]


def _names(kind: str | None = None) -> Callable[[typer.Context, str], list[str]]:
    """Completes to names of a kind, or of the one that the line has already; to nothing if the server gives none."""

    def matching(context: typer.Context, incomplete: str) -> list[str]:
        try:
            plural = plural_of(kind or kind_of(str(context.params.get("kind"))))
            text = kubectl_of(context.params).run("get", plural, "--output=name", "--request-timeout=2s")
        except (KubectlError, UserError):
            return []
        names = (line.rpartition("/")[2] for line in text.splitlines())
        return [name for name in names if name.startswith(incomplete)]

    return matching


def _argument(metavar: str, about: str, kind: str | None = None) -> typer.models.ArgumentInfo:
    argument: typer.models.ArgumentInfo = typer.Argument(
        metavar=metavar, show_default=False, help=about, autocompletion=_names(kind)
    )
    return argument


_KIND = typer.Argument(metavar="KIND", show_default=False, help="stream, policy or replay.", autocompletion=_kinds)
_ANY_KIND = typer.Argument(
    metavar="KIND", show_default=False, help="stream, policy or replay. Default: all.", autocompletion=_kinds
)
Kind = Annotated[str, _KIND]
Name = Annotated[str, _argument("NAME", "The resource's name.")]
MaybeKind = Annotated[str | None, _ANY_KIND]
MaybeName = Annotated[str | None, _argument("NAME", "Its name. Default: all.")]
StreamName = Annotated[str, _argument("STREAM", "The stream's name.", STREAM)]
MaybeStream = Annotated[str | None, _argument("STREAM", "Of one stream. Default: of all.", STREAM)]
PolicyName = Annotated[str, _argument("POLICY", "The policy's name.", POLICY)]
ReplayName = Annotated[str, _argument("REPLAY", "The replay's name.", REPLAY)]
