"""``kubectl messagestore approve`` and ``delete``: messages leave once somebody has approved a preview."""

import json
from typing import Annotated, Any

import typer

from messagestore_operator.cli.output import Output, OutputOption
from messagestore_operator.cli.retention_for import MessageIds, removal
from messagestore_operator.kube.objects import at, name_of
from messagestore_operator.names import APPROVED_BY, APPROVED_PREVIEW, RUN_REQUESTED
from messagestore_operator.plugin.act import annotate, request_time, tell
from messagestore_operator.plugin.find import POLICY, STREAM, PolicyName, StreamName, find
from messagestore_operator.plugin.kubectl import Document, Kubectl, KubectlError
from messagestore_operator.plugin.options import DryRun, UserError, Yes, ask, reaching
from messagestore_operator.plugin.retention import previews
from messagestore_operator.plugin.words import size


@reaching
def approve(
    kubectl: Kubectl,
    policy: PolicyName,
    stream: Annotated[
        str | None, typer.Option("--stream", metavar="NAME", help="The stream, if previews of several wait.")
    ] = None,
    preview: Annotated[
        str | None,
        typer.Option("--preview", metavar="ID", help="Only this preview: its id, or as much as no other begins with."),
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Approve the preview that waits, in your own name: its messages are then removed, or scrubbed."""
    document = find(kubectl, POLICY, policy)
    chosen = waiting(previews(document), policy, stream, preview)
    if not dry_run:
        ask(f"Policy {policy}: {_said(chosen)}. Approve preview {chosen['id']}?", yes=yes)
    own_name = _own_name(kubectl)
    changed = annotate(kubectl, document, lambda it: approval(it, str(chosen["id"]), own_name), dry_run=dry_run)
    tell(changed, f"preview {chosen['id']} of stream {chosen['stream']} is approved", output, dry_run=dry_run)


def waiting(previews: list[dict[str, Any]], policy: str, stream: str | None, preview: str | None) -> dict[str, Any]:
    """The one preview that waits for approval, and that was asked for."""
    waits = [one for one in previews if one["awaitingApproval"]]
    chosen = [one for one in waits if stream in (None, one["stream"]) and _begins(one["id"], preview)]
    chosen = [one for one in chosen if not one["approved"]] or chosen
    if len(chosen) == 1:
        return chosen[0]
    listed = ", ".join(f"{one['id']} of stream {one['stream']}" for one in chosen or waits)
    if chosen and preview is not None:
        raise UserError(f"several previews that wait begin with {preview}, give more of the id: {listed}")
    if chosen:
        raise UserError(f"previews of several streams wait, choose one by --stream or --preview: {listed}")
    if waits:
        raise UserError(f"no such preview of policy {policy} waits for approval; what waits: {listed}")
    raise UserError(f"no preview of policy {policy} waits for approval")


def _begins(known: str, given: str | None) -> bool:
    # An empty text is a script's variable that was not set.
    return given is None or (given != "" and known.startswith(given))


def approval(document: Document, preview: str, own_name: str) -> dict[str, str]:
    """The annotations that approve a preview, and still those that wait for their runs."""
    waits = [one for one in previews(document) if one["approved"] and one["awaitingApproval"] and one["id"] != preview]
    by = at(document, "metadata", "annotations", APPROVED_BY)
    if waits and by != own_name:
        listed = ", ".join(f"{one['id']} of stream {one['stream']}" for one in waits)
        raise UserError(
            f"{by or 'somebody'} has approved {listed}, whose run has not ended; approvals of a policy have one name, "
            "so try again once it has"
        )
    return {APPROVED_PREVIEW: ",".join([*(one["id"] for one in waits), preview]), APPROVED_BY: own_name}


def _said(chosen: dict[str, Any]) -> str:
    rules = ", ".join(f"{count} by rule {name}" for name, count in (chosen.get("byRule") or {}).items())
    messages = f"{chosen.get('messages', 0)} messages of stream {chosen['stream']}, {size(chosen.get('bytes', 0))}"
    return f"{messages} ({rules}), are removed or scrubbed; {chosen.get('held', 0)} are held"


def _own_name(kubectl: Kubectl) -> str:
    try:
        who = json.loads(kubectl.run("auth", "whoami", "--output=json"))
    except KubectlError as error:
        raise UserError(f"an approval has your name, which the API server doesn't tell: {error}") from None
    return str(at(who, "status", "userInfo", "username"))


@reaching
def delete(
    kubectl: Kubectl,
    stream: StreamName,
    message_ids: MessageIds,
    erase: Annotated[
        bool, typer.Option("--erase", help="Erase them: no archive, and a late copy is not stored again.")
    ] = False,
    dry_run: DryRun = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a RetentionPolicy that removes these messages once its preview is approved; holds keep what they cover."""
    document = find(kubectl, STREAM, stream)
    policy = removal(document["metadata"]["namespace"], stream, message_ids, erase=erase)
    policy["metadata"]["annotations"] = {RUN_REQUESTED: request_time()}
    made = kubectl.create(policy, dry_run=dry_run)
    name = name_of(made)
    words = f"is made, and a preview is requested; then: kubectl messagestore preview {name}, and approve {name}"
    tell(made, words, output, dry_run=dry_run)
