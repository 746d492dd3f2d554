"""``kubectl messagestore status``: what each resource does, and why it is as it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from messagestore_operator.cli.output import (
    BAD_INPUT,
    Output,
    OutputOption,
    document_of,
    print_drawn,
    print_rows,
    printed,
)
from messagestore_operator.kube.objects import MANAGED_BY, MANAGER, at, metadata, name_of, namespace_of
from messagestore_operator.names import TABLE
from messagestore_operator.plugin.facts import Run, conditions, failing, ready, runs
from messagestore_operator.plugin.find import (
    ALL,
    NOUNS,
    POLICY,
    STREAM,
    MaybeKind,
    MaybeName,
    all_of,
    named,
    wanted_kind,
)
from messagestore_operator.plugin.kubectl import Document, Kubectl, KubectlError
from messagestore_operator.plugin.options import OPERATOR_NAMESPACE, Everywhere, OfOperator, UserError, reaching
from messagestore_operator.plugin.words import ago, counts_of, plain, run_words

if TYPE_CHECKING:
    from rich.tree import Tree

_SHOWN_RUNS = 5


@reaching
def status(
    kubectl: Kubectl,
    kind: MaybeKind = None,
    name: MaybeName = None,
    everywhere: Everywhere = False,
    operator_namespace: OfOperator = OPERATOR_NAMESPACE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a resource and why it is as it is: conditions and what helps, runs, and tables that it holds or waits for.

    Without a name: all resources, those that need somebody first.
    """
    wanted = wanted_kind(kind, name)
    resources = all_of(kubectl, ALL)
    now = datetime.now(UTC)
    matching = named(kubectl, resources, wanted, name)
    if name is None:
        if not printed(output, [summary(one) for one in matching], "resources"):
            print_overview(matching, now, wide=output is Output.WIDE)
        return
    if len(matching) > 1:
        places = ", ".join(sorted(map(namespace_of, matching)))
        raise UserError(f"{name} is in several namespaces, choose by -n: {places}", BAD_INPUT)
    (document,) = matching
    shown = details(document, resources, _table_leases(kubectl, operator_namespace))
    if not printed(output, shown):
        print_drawn(tree(document, shown, now))


def summary(document: Document) -> dict[str, Any]:
    """A resource in short, for machines."""
    return {
        "kind": document["kind"],
        "namespace": namespace_of(document),
        "name": name_of(document),
        "phase": at(document, "status", "phase"),
        "needsSomebody": failing(document),
        "conditions": [asdict(one) for one in conditions(document)],
    }


def details(document: Document, resources: list[Document], table_leases: list[Document] | None) -> dict[str, Any]:
    """A resource with its runs, tables and those that use it.

    Args:
        resources: all of its namespace, and of others.
        table_leases: those of all tables; None if the caller may not read them.
    """
    resources = [one for one in resources if namespace_of(one) == namespace_of(document)]
    streams = [one for one in resources if one["kind"] == STREAM and name_of(one) in _streams_of(document)]
    used_by = [one for one in resources if one["kind"] != STREAM and name_of(document) in _streams_of(one)]
    why = [one.reason for one in conditions(document) if one.reason]
    return {
        **summary(document),
        "why": [{"reason": reason, **about} for reason in dict.fromkeys(why) if (about := _meaning(reason))],
        "runs": [document_of(one) for one in runs(document)],
        "tables": None if table_leases is None else claims(document, streams, table_leases),
        "usedBy": [summary(one) for one in used_by] if document["kind"] == STREAM else [],
    }


def _streams_of(document: Document) -> set[str]:
    """The streams that a resource names, or that its status lists."""
    if document["kind"] == STREAM:
        return {name_of(document)}
    spec, places = document.get("spec") or {}, at(document, "status", "streams") or []
    targets = [spec.get("destination") or {}, *(spec.get("destinations") or [])]
    named = [spec.get("streamRef"), *(spec.get("streamRefs") or []), *places, *(to.get("stream") for to in targets)]
    return {str(one["name"]) for one in named if one}


def _meaning(reason: str) -> dict[str, str]:
    from messagestore_operator.status.failures import Failure
    from messagestore_operator.status.reasons import Reason

    known = next((one for one in (*Reason, *Failure) if one == reason), None)
    if known is None:
        return {}
    return {"meaning": plain(known.meaning), "remedy": plain(known.remedy)}


def print_overview(resources: list[Document], now: datetime, *, wide: bool) -> None:
    """A row for each resource, those that need somebody first."""
    several = len({namespace_of(one) for one in resources}) > 1
    rows = []
    for one in sorted(resources, key=lambda one: (not failing(one), namespace_of(one), one["kind"], name_of(one))):
        state = ready(one)
        rows.append(
            (
                *((namespace_of(one),) if several else ()),
                f"{NOUNS[one['kind']]}/{name_of(one)}",
                state.status,
                at(one, "status", "phase"),
                state.reason,
                ago(state.since, now),
                state.message if wide or failing(one) else "",
            )
        )
    names = ["RESOURCE", "READY", "PHASE", "REASON", "SINCE", "MESSAGE"]
    print_rows((["NAMESPACE"] if several else []) + names, rows, "no resources")


def tree(document: Document, shown: dict[str, Any], now: datetime) -> Tree:
    """The resource as a tree for people."""
    from rich.text import Text
    from rich.tree import Tree

    title = Text(f"{document['kind']} {namespace_of(document)}/{name_of(document)}", "bold")
    root = Tree(title.append(f"  {shown['phase'] or 'not looked at yet'}", _style(document)))
    helps = {one["reason"]: one for one in shown["why"]}
    for one in conditions(document) or [ready(document)]:
        since = f" for {ago(one.since, now)}" if one.since else ""
        branch = root.add(Text(plain(f"{one.type} {one.status} {one.reason}{since}: {one.message}")))
        if help_of := helps.pop(one.reason, None):
            for words in (help_of["meaning"], help_of["remedy"].removeprefix("Nothing.")):
                if words:
                    branch.add(Text(words, "dim"))
    for line in counts_of(document, now):
        root.add(Text(line))
    listed = runs(document)
    if any(one.current for one in listed):
        _add_tables(root, shown["tables"])
    _add_runs(root, "run in progress", [one for one in listed if one.current], now)
    _add_runs(root, "last runs", [one for one in listed if not one.current][:_SHOWN_RUNS], now)
    if shown["usedBy"]:
        users = root.add("used by")
        for one in shown["usedBy"]:
            noun = "policy" if one["kind"] == POLICY else "replay"
            users.add(Text(plain(f"{noun} {one['name']}: {_state(one)}")))
    return root


def _state(shown: dict[str, Any]) -> str:
    """The phase, and the reason if it is another word."""
    phase = shown["phase"] or "not looked at yet"
    reason = next((one["reason"] for one in shown["conditions"]), phase)
    return phase if reason in ("", phase) else f"{phase}, {reason}"


def _style(document: Document) -> str:
    if failing(document):
        return "red"
    return "green" if ready(document).status == "True" else "yellow"


def _add_tables(root: Tree, tables: list[dict[str, Any]] | None) -> None:
    from rich.text import Text

    if tables is None:
        root.add(Text("tables: the Leases in the operator's namespace may not be read", "dim"))
    for one in tables or []:
        words = f"waits for table {one['table']}, which run {one['holder']} has"
        root.add(Text(plain(words if one["waits"] else f"holds table {one['table']} (Lease {one['lease']})")))


def _add_runs(root: Tree, title: str, listed: list[Run], now: datetime) -> None:
    from rich.text import Text

    if listed:
        branch = root.add(title)
        for one in listed:
            branch.add(Text(run_words(one, now)))


def _table_leases(kubectl: Kubectl, namespace: str) -> list[Document] | None:
    """The Leases of all tables; None if the caller may not read them in the operator's namespace."""
    in_namespace = Kubectl(namespace, options=kubectl.options)
    try:
        return in_namespace.items("leases.coordination.k8s.io", f"{MANAGED_BY}={MANAGER}")
    except KubectlError as error:
        if error.reason == "Forbidden":
            return None
        raise


def claims(document: Document, streams: Iterable[Document], leases: Iterable[Document]) -> list[dict[str, Any]]:
    """The tables that a resource's current runs hold or wait for, each with the run that has it.

    Args:
        streams: those that its runs may write.
        leases: of all tables.
    """
    current = {f"{one.namespace}/{one.run}": one for one in runs(document) if one.current}
    waiting = any(one.launched_at is None for one in current.values())
    tables = {(namespace_of(one), _plain(str(at(one, "spec", "table", "uri")))) for one in streams}
    claimed = []
    for lease in leases:
        holder = at(lease, "spec", "holderIdentity")
        namespace, _, table = str((metadata(lease).get("annotations") or {}).get(TABLE, "")).partition(" ")
        uri = table.rpartition(" ")[2]
        if not holder or not (holder in current or (waiting and (namespace, uri) in tables)):
            continue
        claimed.append({"table": uri, "lease": name_of(lease), "holder": holder, "waits": holder not in current})
    return claimed


def _plain(uri: str) -> str:
    """With Hadoop's scheme for S3, as in Leases."""
    return (f"s3a://{uri.removeprefix('s3://')}" if uri.startswith("s3://") else uri).rstrip("/")
