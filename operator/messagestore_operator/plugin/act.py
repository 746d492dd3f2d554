"""``kubectl messagestore trigger``, ``suspend``, ``resume`` and ``redrive``, and how a change is told."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

import typer

from messagestore_operator.cli.output import Output, OutputOption, echo, printed
from messagestore_operator.kube.objects import at, name_of
from messagestore_operator.names import API_VERSION, RUN_REQUESTED, named_after
from messagestore_operator.plugin.find import NOUNS, REPLAY, STREAM, Kind, Name, StreamName, find, kind_of, plural_of
from messagestore_operator.plugin.kubectl import Document, Kubectl, KubectlError
from messagestore_operator.plugin.options import DryRun, UserError, reaching


@reaching
def trigger(
    kubectl: Kubectl, kind: Kind, name: Name, dry_run: DryRun = False, output: OutputOption = Output.TABLE
) -> None:
    """Request a run now, whatever the trigger says. A run in progress ends first."""
    document = find(kubectl, kind_of(kind), name)
    if document["kind"] == REPLAY and not at(document, "spec", "trigger"):
        raise UserError(f"replay {name} has no trigger: it sends its selection once, as soon as it can")
    later = "; it is suspended, and runs once it is resumed" if at(document, "spec", "suspend") else ""
    changed = annotate(kubectl, document, lambda _: {RUN_REQUESTED: request_time()}, dry_run=dry_run)
    tell(changed, f"a run is requested{later}", output, dry_run=dry_run)


@reaching
def suspend(
    kubectl: Kubectl, kind: Kind, name: Name, dry_run: DryRun = False, output: OutputOption = Output.TABLE
) -> None:
    """Start no new run; a replay pauses after its current batch."""
    set_suspended(kubectl, kind_of(kind), name, True, output, dry_run=dry_run)


@reaching
def resume(
    kubectl: Kubectl, kind: Kind, name: Name, dry_run: DryRun = False, output: OutputOption = Output.TABLE
) -> None:
    """Let a suspended resource go on where it was."""
    set_suspended(kubectl, kind_of(kind), name, False, output, dry_run=dry_run)


@reaching
def redrive(
    kubectl: Kubectl,
    stream: StreamName,
    reasons: Annotated[
        list[str] | None, typer.Option("--reason", metavar="REASON", help="Only those set aside for it; repeatable.")
    ] = None,
    where: Annotated[str | None, typer.Option("--where", metavar="CONDITION", help="Only if this is true.")] = None,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send a stream's dead letters through the stream again, as they came: make a ReplayJob.

    Those that fail again are dead letters again.
    """
    document = find(kubectl, STREAM, stream)
    if at(document, "status", "table", "deadLetters") == 0:
        raise UserError(f"stream {stream} has no dead letters that were not redriven")
    job = redrive_of(stream, reasons or [], where, datetime.now(UTC))
    made = kubectl.create(job, dry_run=dry_run)
    tell(made, f"is made; look at it: kubectl messagestore status replay {name_of(made)}", output, dry_run=dry_run)


def redrive_of(stream: str, reasons: list[str], where: str | None, now: datetime) -> Document:
    """A ReplayJob of a stream's dead letters into the stream."""
    select = {**({"reasons": reasons} if reasons else {}), **({"where": where} if where else {})}
    return {
        "apiVersion": API_VERSION,
        "kind": REPLAY,
        "metadata": {"name": named_after(stream, f"redrive-{now:%Y%m%d-%H%M%S}")},
        "spec": {
            "streamRef": {"name": stream},
            "origin": "DeadLetters",
            **({"select": select} if select else {}),
            "destination": {"stream": {"name": stream}},
        },
    }


def request_time() -> str:
    """A new value of an annotation that requests something."""
    return datetime.now(UTC).isoformat()


def annotate(
    kubectl: Kubectl, document: Document, given: Callable[[Document], dict[str, str]], *, dry_run: bool
) -> Document:
    """Set annotations of a resource, by what it is: if somebody changes it meanwhile, by what it is then."""
    while True:
        change = {"resourceVersion": document["metadata"]["resourceVersion"], "annotations": given(document)}
        try:
            return kubectl.patch(plural_of(document["kind"]), name_of(document), {"metadata": change}, dry_run=dry_run)
        except KubectlError as error:
            if error.reason != "Conflict":
                raise
        document = find(kubectl, document["kind"], name_of(document))


def set_suspended(kubectl: Kubectl, kind: str, name: str, wanted: bool, output: Output, *, dry_run: bool) -> None:
    """Set ``spec.suspend``, and tell it."""
    document = find(kubectl, kind, name)
    if bool(at(document, "spec", "suspend")) is wanted:
        raise UserError(f"{NOUNS[kind]} {name} is {'suspended already' if wanted else 'not suspended'}")
    if wanted:
        refuse_ended(document)
    changed = kubectl.patch(plural_of(kind), name, {"spec": {"suspend": wanted}}, dry_run=dry_run)
    tell(changed, "is suspended" if wanted else "goes on", output, dry_run=dry_run)


def refuse_ended(document: Document) -> None:
    """Raise UserError for a replay that sends nothing any more; what has a trigger goes on."""
    if at(document, "status", "phase") == "Succeeded" and not at(document, "spec", "trigger"):
        raise UserError(f"replay {name_of(document)} has ended: its whole selection was sent")


def tell(changed: Document, words: str, output: Output, *, dry_run: bool) -> None:
    """Print a resource as it is after a change, or in words what was done."""
    about = {name: value for name, value in changed["metadata"].items() if name != "managedFields"}
    if not printed(output, {**changed, "metadata": about}):
        nothing = " (dry run: nothing was changed)" if dry_run else ""
        echo(f"{NOUNS[changed['kind']]} {name_of(changed)}: {words}{nothing}")
