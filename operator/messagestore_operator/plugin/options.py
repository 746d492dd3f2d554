"""The options of all commands, how their errors are told, and the question before what can't be undone."""

import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from messagestore_operator.cli.output import BAD_INPUT, FAILED, echo
from messagestore_operator.plugin.kubectl import Kubectl, KubectlError

OPERATOR_NAMESPACE = "messagestore"
"""Where docs/install.md installs the operator."""

Everywhere = Annotated[bool, typer.Option("--all-namespaces", "-A", help="Look in all namespaces.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the API server check the change, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
OfOperator = Annotated[
    str, typer.Option("--operator-namespace", metavar="NAME", help="Namespace of the operator, with its Leases.")
]
_REACHING: dict[str, Any] = {
    "namespace": Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NAME", help="Namespace. Default: the context's.")
    ],
    "context": Annotated[str | None, typer.Option("--context", metavar="NAME", help="Context of the kubeconfig.")],
    "kubeconfig": Annotated[str | None, typer.Option("--kubeconfig", metavar="FILE", help="Path of the kubeconfig.")],
    "as_user": Annotated[str | None, typer.Option("--as", metavar="USER", help="User to impersonate.")],
}


_DENIED = re.compile(r" cannot (\w+) resource \"([\w/]+)\"")


class UserError(Exception):
    """What a person gave can't be done; the message says why."""

    def __init__(self, message: str, code: int = FAILED) -> None:
        super().__init__(message)
        self.code = code


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, whose first parameter is a Kubectl, the options that reach a cluster, and tell its errors."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        kubectl = kubectl_of(given)
        with telling():
            command(kubectl, **{name: value for name, value in given.items() if name not in (*_REACHING, "everywhere")})

    signature = with_options(command, 0, {name: (kind, None) for name, kind in _REACHING.items()})
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    return run


def with_options(command: Callable[..., None], place: int, options: Mapping[str, tuple[Any, Any]]) -> inspect.Signature:
    """A command's signature with options, each with its type and default, instead of the parameter that has them."""
    signature, keyword = inspect.signature(command, eval_str=True), inspect.Parameter.KEYWORD_ONLY
    own = list(signature.parameters.values())
    given = [inspect.Parameter(name, keyword, default=to, annotation=kind) for name, (kind, to) in options.items()]
    after = [one.replace(kind=keyword) for one in own[place + 1 :]]
    return signature.replace(parameters=[*own[:place], *after, *given])


def kubectl_of(given: Mapping[str, Any]) -> Kubectl:
    """The kubectl of a command, by its parameters."""
    chosen = {"--context": "context", "--kubeconfig": "kubeconfig", "--as": "as_user"}
    options = tuple(f"{option}={given[name]}" for option, name in chosen.items() if given.get(name) is not None)
    return Kubectl(given.get("namespace"), bool(given.get("everywhere")), options)


@contextmanager
def telling() -> Iterator[None]:
    """Print errors in words, and exit with their code."""
    try:
        yield
    except (KubectlError, UserError) as error:
        for line in f"error: {error}{_role_for(error)}".splitlines():
            echo(line, err=True)
        raise typer.Exit(getattr(error, "code", FAILED)) from None


def _role_for(error: Exception) -> str:
    """Which ClusterRole a caller lacks; docs/operate.md has them all."""
    denied = getattr(error, "reason", None) == "Forbidden" and _DENIED.search(str(error))
    if not denied:
        return ""
    looks, approves = denied[1] in ("get", "list"), denied.groups() == ("patch", "retentionpolicies")
    role = "…-look" if looks else "…-act, or to approve …-approve" if approves else "…-act"
    return f"; that takes ClusterRole {role}"


def ask(question: str, *, yes: bool) -> None:
    """Go on only if a person says yes, or ``--yes`` was given.

    Raises:
        UserError: there is nobody to ask.
        typer.Abort: the answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UserError(f"{question} Nobody is there to ask: give --yes", BAD_INPUT)
    typer.confirm(question, abort=True, err=True)
