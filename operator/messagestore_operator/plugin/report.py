"""``kubectl messagestore report``: what somebody needs who helps, in one file, without Secrets and payloads."""

import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from messagestore_operator.cli.output import BAD_INPUT, Output, OutputOption, echo, printed, writing
from messagestore_operator.kube.objects import MANAGED_BY, MANAGER, at, labels_of, name_of, namespace_of
from messagestore_operator.names import DRIVER_ENDING, REPORT, RUN
from messagestore_operator.plugin import bundle
from messagestore_operator.plugin.find import ALL, all_of
from messagestore_operator.plugin.kubectl import Document, Kubectl, KubectlError
from messagestore_operator.plugin.options import OPERATOR_NAMESPACE, Everywhere, OfOperator, UserError, reaching

_OF_RUNS = f"{MANAGED_BY}={MANAGER}"
_OF_OPERATOR = f"app.kubernetes.io/part-of={MANAGER}"
_KINDS = ("api-resources", "--api-group=messagestore.dev", "--output=name")
_LINES = 20_000
"""Of each log, the last ones."""
Part = tuple[str, str]
"""The path and the text of a file."""


@reaching
def report(
    kubectl: Kubectl,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Default: messagestore-report-TIME.tar.gz.")
    ] = None,
    logs: Annotated[bool, typer.Option("--logs/--no-logs", help="With the logs of drivers and operator.")] = True,
    everywhere: Everywhere = False,
    operator_namespace: OfOperator = OPERATOR_NAMESPACE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Write what somebody needs who helps to a file: resources, Events, reports of runs, logs, versions, settings.

    Secrets are not read, and no messages. Look into it before you pass it on: it has names of streams, ids and values
    in rules, and texts of errors. What you may not read is missing, and named.
    """
    now = datetime.now(UTC)
    title = f"messagestore-report-{now:%Y%m%dT%H%M%SZ}"
    target = file or Path(f"{title}.tar.gz")
    with writing(target):
        if target.exists():
            raise UserError(f"{target} is there already", BAD_INPUT)
    problems: list[str] = []
    parts = [*collected(kubectl, Kubectl(operator_namespace, options=kubectl.options), problems, logs=logs)]
    if len(parts) == 1 and problems:
        raise UserError(f"there is nothing to report, as it can't be read: {problems[0]}")
    parts.append(("problems.txt", "".join(f"{one}\n" for one in problems)))
    write(target, title, parts, now)
    if not printed(output, {"file": str(target), "files": [path for path, _ in parts], "problems": problems}):
        echo(f"{target}: {len(parts)} files")
        for one in problems:
            echo(f"missing: {one}", err=True)


def collected(kubectl: Kubectl, operator: Kubectl, problems: list[str], *, logs: bool) -> Iterator[Part]:
    """The files of a report; what can't be read is added to the problems."""
    tried = partial(_tried, problems)
    yield "versions.json", _text(_versions(kubectl, tried))
    for one in tried("resources", lambda: all_of(kubectl, ALL), []):
        yield f"{namespace_of(one)}/{one['kind']}/{name_of(one)}.json", _text(bundle.resource(one))
    events = tried("Events", lambda: kubectl.items("events"), [])
    yield from _by_namespace("events.json", [one for one in events if _is_ours(one)], bundle.event)
    for one in tried("reports of runs", lambda: kubectl.items("configmaps", _OF_RUNS), []):
        if report := at(one, "data", REPORT):
            run = labels_of(one).get(RUN, name_of(one))
            yield f"{namespace_of(one)}/reports/{run}.json", _text(bundle.scrubbed(_json(report)))
    applications = "sparkapplications.sparkoperator.k8s.io"
    launched = tried("applications of runs", lambda: kubectl.items(applications, _OF_RUNS), [])
    yield from _by_namespace("applications.json", launched, bundle.application)
    pods = tried("pods of runs", lambda: kubectl.items("pods", _OF_RUNS), [])
    yield from _by_namespace("pods.json", pods, bundle.pod)
    own = tried("the operator's pods", lambda: operator.items("pods", _OF_OPERATOR), [])
    yield from _by_namespace("operator-pods.json", own, bundle.pod)
    for one in tried("the operator's settings", lambda: operator.items("configmaps", _OF_OPERATOR), []):
        if settings := at(one, "data", "settings.yaml"):
            yield f"{namespace_of(one)}/settings.yaml", bundle.scrubbed_text(str(settings))
    yield from _leases(operator, tried)
    drivers = [one for one in pods if name_of(one).endswith(DRIVER_ENDING)]
    for one in [*drivers, *own] if logs else ():
        name, in_namespace = name_of(one), Kubectl(namespace_of(one), options=kubectl.options)
        read = partial(in_namespace.run, "logs", name, "--all-containers", f"--tail={_LINES}")
        if text := tried(f"log of {name}", read, ""):
            yield f"{namespace_of(one)}/logs/{name}.log", bundle.scrubbed_text(text)


def _tried(problems: list[str], what: str, read: Callable[[], Any], otherwise: Any) -> Any:
    try:
        return read()
    except KubectlError as error:
        problems.append(f"{what}: {bundle.scrubbed_text(str(error))}")
        return otherwise


def _versions(kubectl: Kubectl, tried: Callable[..., Any]) -> Document:
    from importlib.metadata import version

    return {
        "plugin": version("message-store-operator"),
        "kubernetes": tried("versions of Kubernetes", lambda: _json(kubectl.run("version", "--output=json")), None),
        "kinds": tried("the definitions", lambda: sorted(kubectl.run(*_KINDS).split()), None),
    }


def _leases(operator: Kubectl, tried: Callable[..., Any]) -> Iterator[Part]:
    leases = tried("Leases of tables", lambda: operator.items("leases.coordination.k8s.io", _OF_RUNS), [])
    shown = [
        {"name": name_of(one), "table": at(one, "metadata", "annotations"), **one.get("spec", {})} for one in leases
    ]
    if shown:
        yield f"{operator.namespace}/leases.json", _text(shown)


def _is_ours(event: Document) -> bool:
    """Whether an Event is of one of the three kinds, or of a run's object, whose kinds have Events of their own."""
    kind = at(event, "involvedObject", "kind")
    ours = str(at(event, "involvedObject", "apiVersion") or "").startswith("messagestore.dev/")
    return ours or kind == "SparkApplication" or str(at(event, "involvedObject", "name")).endswith(DRIVER_ENDING)


def _by_namespace(file: str, documents: list[Document], shown: Callable[[Document], Document]) -> Iterator[Part]:
    places: dict[str, list[Document]] = defaultdict(list)
    for one in documents:
        places[namespace_of(one)].append(shown(one))
    for namespace, listed in places.items():
        yield f"{namespace}/{file}", _text(listed)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return {"unreadable": len(text)}


def _text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def write(target: Path, title: str, parts: list[Part], now: datetime) -> None:
    """Write a compressed archive that only its owner may read."""
    # Imported late, as other libraries that only one command needs: each takes milliseconds of every start.
    import tarfile

    with writing(target), target.open("xb") as stream, tarfile.open(fileobj=stream, mode="w:gz") as archive:
        target.chmod(0o600)
        for path, text in parts:
            content = text.encode(errors="replace")
            entry = tarfile.TarInfo(f"{title}/{path}")
            entry.size, entry.mtime, entry.mode = len(content), now.timestamp(), 0o600
            archive.addfile(entry, io.BytesIO(content))
