"""``kubectl messagestore replay``: pause, slow, reset or cancel a replay."""

import json
import re
from typing import Annotated

import typer

from messagestore_operator.cli.output import BAD_INPUT, Output, OutputOption, echo
from messagestore_operator.kube.objects import at
from messagestore_operator.names import RESET_TO
from messagestore_operator.plugin.act import annotate, refuse_ended, set_suspended, tell
from messagestore_operator.plugin.find import REPLAY, ReplayName, find, plural_of
from messagestore_operator.plugin.kubectl import Document, Kubectl
from messagestore_operator.plugin.options import DryRun, UserError, Yes, ask, reaching

app = typer.Typer(
    name="replay", no_args_is_help=True, rich_markup_mode=None, help="Pause, slow, reset or cancel a replay."
)


@app.command()
@reaching
def pause(kubectl: Kubectl, name: ReplayName, dry_run: DryRun = False, output: OutputOption = Output.TABLE) -> None:
    """Pause after the current batch."""
    set_suspended(kubectl, REPLAY, name, True, output, dry_run=dry_run)


@app.command()
@reaching
def resume(kubectl: Kubectl, name: ReplayName, dry_run: DryRun = False, output: OutputOption = Output.TABLE) -> None:
    """Go on where it was."""
    set_suspended(kubectl, REPLAY, name, False, output, dry_run=dry_run)


@app.command()
@reaching
def rate(
    kubectl: Kubectl,
    name: ReplayName,
    limit: Annotated[
        str, typer.Argument(metavar="RATE", show_default=False, help="Messages a second at most; none: no limit.")
    ],
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Set how fast messages are sent."""
    wanted = rate_of(limit)
    refuse_ended(find(kubectl, REPLAY, name))
    changed = kubectl.patch(plural_of(REPLAY), name, {"spec": {"rateLimit": wanted}}, dry_run=dry_run)
    words = f"sends at most {limit} messages a second" if wanted else "sends without a limit"
    tell(changed, words, output, dry_run=dry_run)


def rate_of(text: str) -> dict[str, int] | None:
    """The field ``rateLimit``; None removes it."""
    if text == "none":
        return None
    if _is_number(text) and int(text) > 0:
        return {"messagesPerSecond": int(text)}
    raise UserError(f"{text}: the rate is a number of messages a second, or none", BAD_INPUT)


@app.command()
@reaching
def cancel(kubectl: Kubectl, name: ReplayName, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a replay: it stops, and what it has sent stays. A subscription's cursor stays in the store."""
    document = find(kubectl, REPLAY, name)
    total = at(document, "status", "replayedTotal")
    sent = (at(document, "status", "progress", "replayed") or 0) if total is None else total
    if not dry_run:
        ask(f"Replay {name} has sent {sent} messages, which stay sent. Delete it?", yes=yes)
    kubectl.delete(plural_of(REPLAY), name, dry_run=dry_run)
    echo(f"replay {name}: is cancelled{' (dry run: nothing was changed)' if dry_run else ''}")


@app.command()
@reaching
def reset(
    kubectl: Kubectl,
    name: ReplayName,
    to: Annotated[
        str,
        typer.Argument(
            metavar="TO", show_default=False, help="Beginning, Now, a global position, or a time (RFC 3339)."
        ),
    ],
    destination: Annotated[
        str | None, typer.Option("--destination", metavar="NAME", help="Only this one of several.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move a subscription's cursor: from there messages are sent again, or up to there skipped."""
    document = find(kubectl, REPLAY, name)
    reset_value(document, to, destination)
    if not dry_run:
        ask(f"Replay {name} sends from {to} on, messages that it has sent before among them. Move it?", yes=yes)
    changed = annotate(kubectl, document, lambda it: {RESET_TO: reset_value(it, to, destination)}, dry_run=dry_run)
    tell(changed, f"goes on from {to}", output, dry_run=dry_run)


def reset_value(document: Document, to: str, destination: str | None) -> str:
    """The annotation that moves cursors."""
    name, spec = document["metadata"]["name"], document.get("spec") or {}
    if not spec.get("start"):
        raise UserError(f"replay {name} has no start, so no cursor: it is no subscription")
    if to not in ("Beginning", "Now") and not _is_number(to):
        _checked(to)
    names = [one["name"] for one in spec.get("destinations") or []]
    if destination is not None and destination not in names:
        raise UserError(f"replay {name} has no destination {destination}; it has: {', '.join(names) or 'one, unnamed'}")
    before, last = _annotation(document), at(document, "status", "lastHandledReset") or ""
    is_handled = before == last
    value = to
    if destination is not None:
        value = _by_name("" if is_handled and not _is_by_name(last) else before, names, to, destination)
    asked = [destination] if destination else names
    if value == last or (is_handled and to in [_of(last, one) for one in asked]):
        raise UserError(
            f"replay {name} was reset to {last} last: remove annotation {RESET_TO}, let a round pass, and do it again"
        )
    return value


def _checked(text: str) -> None:
    from messagestore_operator.cli.options import moment

    try:
        moment(text)
    except typer.BadParameter as error:
        raise UserError(f"{text}: is not Beginning, Now or a position, so it {error.message}", BAD_INPUT) from None


def _annotation(document: Document) -> str:
    return str((at(document, "metadata", "annotations") or {}).get(RESET_TO, ""))


def _by_name(before: str, names: list[str], to: str, destination: str) -> str:
    """A JSON object; each value counts once, so those given before stay, also one for all that still waits."""
    known = {name: value for name in names if (value := _of(before, name))}
    values = {**known, destination: to}
    return json.dumps({name: int(value) if _is_number(value) else value for name, value in values.items()})


def _of(annotation: str, name: str) -> str:
    """What an annotation says of a destination; empty if nothing."""
    if not _is_by_name(annotation):
        return annotation
    try:
        return str(json.loads(annotation).get(name, ""))
    except ValueError:
        # The operator refuses it, too.
        return ""


def _is_by_name(annotation: str) -> bool:
    return annotation.lstrip().startswith("{")


def _is_number(text: str) -> bool:
    """Whether a text is a number, or a position, as the operator reads them."""
    return re.fullmatch("[0-9]{1,15}", text) is not None
