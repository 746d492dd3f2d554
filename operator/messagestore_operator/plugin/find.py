"""Kinds and resources by the names that people give, what they may have meant, and what a shell may complete."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Annotated

import typer

from messagestore_operator.cli.output import BAD_INPUT
from messagestore_operator.names import GROUP, NAMES
from messagestore_operator.plugin.kubectl import Document, Kubectl, KubectlError
from messagestore_operator.plugin.options import UserError, kubectl_of

ALL = ",".join(f"{names.plural}.{GROUP}" for names in NAMES.values())
"""The three kinds, for a list."""
NOUNS = {"MessageStream": "stream", "RetentionPolicy": "policy", "ReplayJob": "replay"}
"""What people call them."""
STREAM, POLICY, REPLAY = NAMES


def plural_of(kind: str) -> str:
    """The name of a kind that no other group has."""
    return f"{NAMES[kind].plural}.{GROUP}"


def kind_of(text: str) -> str:
    """The kind that a person names, in any of its forms."""
    known = _kinds()
    if kind := known.get(text.lower()):
        return kind
    raise UserError(
        f"no such kind: {text}{_meant(text.lower(), known)}; the kinds are stream, policy, replay", BAD_INPUT
    )


def find(kubectl: Kubectl, kind: str, name: str) -> Document:
    """A resource; what is told if there is none has a similar name."""
    try:
        return kubectl.get(plural_of(kind), name)
    except KubectlError as error:
        if error.reason != "NotFound":
            raise
    names = [str(one["metadata"]["name"]) for one in all_of(kubectl, plural_of(kind))]
    raise missing(kubectl, kind, name, names)


def all_of(kubectl: Kubectl, plurals: str) -> list[Document]:
    """The resources of one or several of the kinds, with commas between."""
    found = kubectl.items(plurals)
    if not found and not kubectl.everywhere:
        _check_namespace(kubectl)
    return found


def _check_namespace(kubectl: Kubectl) -> None:
    """Refuse a namespace that doesn't exist, which the API server takes for an empty one."""
    name = kubectl.current_namespace()
    # Not everybody may list them.
    with suppress(KubectlError):
        names = [str(one["metadata"]["name"]) for one in kubectl.items("namespaces")]
        if name not in names:
            raise UserError(f'no such namespace "{name}"{_meant(name, names)}')


def wanted_kind(kind: str | None, name: str | None) -> str | None:
    """The kind that a person wants to see; None: all."""
    wanted = None if kind in (None, "all") else kind_of(str(kind))
    if wanted is None and name is not None:
        raise UserError("with a name, also give its kind: stream, policy or replay", BAD_INPUT)
    return wanted


def named(kubectl: Kubectl, resources: Iterable[Document], kind: str | None, name: str | None) -> list[Document]:
    """Those of the resources that have a kind and a name, if these are given."""
    of_kind = [one for one in resources if kind in (None, one["kind"])]
    matching = [one for one in of_kind if name in (None, one["metadata"]["name"])]
    if not matching and name is not None:
        names = [str(one["metadata"]["name"]) for one in of_kind]
        raise missing(kubectl, str(kind), name, names)
    return matching


def missing(kubectl: Kubectl, kind: str, name: str, names: Iterable[str]) -> UserError:
    """What to say of a name that no resource has."""
    where = "any namespace" if kubectl.everywhere else f"namespace {kubectl.current_namespace()}"
    return UserError(f'no such {NOUNS[kind]} "{name}" in {where}{_meant(name, names)}')


def _kinds() -> dict[str, str]:
    forms = {
        kind: (kind.lower(), f"{names.plural}.{GROUP}", names.plural, names.short, NOUNS[kind], f"{NOUNS[kind]}s")
        for kind, names in NAMES.items()
    }
    return {form: kind for kind, known in forms.items() for form in known} | {"policies": POLICY}


def _meant(text: str, names: Iterable[str]) -> str:
    close = get_close_matches(text, list(names), n=1)
    return f'; did you mean "{close[0]}"?' if close else ""


def _nouns(incomplete: str) -> list[str]:
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


_KIND = typer.Argument(metavar="KIND", show_default=False, help="stream, policy or replay.", autocompletion=_nouns)
_ANY_KIND = typer.Argument(
    metavar="KIND", show_default=False, help="stream, policy or replay. Default: all.", autocompletion=_nouns
)
Kind = Annotated[str, _KIND]
Name = Annotated[str, _argument("NAME", "The resource's name.")]
MaybeKind = Annotated[str | None, _ANY_KIND]
MaybeName = Annotated[str | None, _argument("NAME", "Its name. Default: all.")]
StreamName = Annotated[str, _argument("STREAM", "The stream's name.", STREAM)]
MaybeStream = Annotated[str | None, _argument("STREAM", "Of one stream. Default: of all.", STREAM)]
PolicyName = Annotated[str, _argument("POLICY", "The policy's name.", POLICY)]
ReplayName = Annotated[str, _argument("REPLAY", "The replay's name.", REPLAY)]
