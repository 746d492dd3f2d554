"""Asks a store in the cluster: makes a pod with the stream's own credentials, reads by exec, and deletes the pod."""

import functools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from messagestore_operator.cli.options import seconds
from messagestore_operator.cli.output import BAD_INPUT, FAILED, echo
from messagestore_operator.kube.objects import MANAGED_BY, MANAGER, at, labels_of, name_of, namespace_of
from messagestore_operator.plugin.find import STREAM, find
from messagestore_operator.plugin.kubectl import Document, Kubectl, KubectlError
from messagestore_operator.plugin.options import UserError, with_options
from messagestore_operator.plugin.reader_pod import (
    CONTAINER,
    OF_STREAM,
    READER,
    Surroundings,
    access_of,
    pod_of,
    runs,
    surroundings_of,
    waits_for,
    why_not,
)

Line = tuple[str, str]
"""A word and JSON, see ``messagestore.answering``."""
_LAST = ("end", "missing", "error")
_APPLICATIONS = "sparkapplications.sparkoperator.k8s.io"
_PAUSE = 0.5
_RIGHTS = "to read a store takes ClusterRole …-read in its namespace"


def _duration(name: str, shown: str, about: str) -> Any:
    return Annotated[float, typer.Option(name, metavar="DURATION", parser=seconds, show_default=shown, help=about)]


_OPTIONS: dict[str, tuple[Any, Any]] = {
    "image": (
        Annotated[
            str | None,
            typer.Option("--image", metavar="IMAGE", help="The jobs' image. Default: that of the stream's last run."),
        ],
        None,
    ),
    "memory": (Annotated[str, typer.Option("--memory", metavar="SIZE", help="Memory of the pod.")], "1Gi"),
    "start": (_duration("--start", "3m", "How long the pod may take to start."), 180.0),
    "deadline": (_duration("--deadline", "1h", "How long the pod may live at most."), 3600.0),
}


@dataclass(frozen=True)
class PodOptions:
    """What a caller may choose of the pod; times are in seconds."""

    image: str | None
    memory: str
    start: float
    deadline: float


def by_pod(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command, whose second parameter is PodOptions, options for them."""

    @functools.wraps(command)
    def run(kubectl: Kubectl, **given: Any) -> None:
        command(kubectl, PodOptions(**{name: given.pop(name) for name in _OPTIONS}), **given)

    run.__signature__ = with_options(command, 1, _OPTIONS)  # type: ignore[attr-defined]
    return run


@contextmanager
def answer_of(kubectl: Kubectl, options: PodOptions, stream: str, question: Document) -> Iterator[Iterator[Line]]:
    """The lines of the answer to a question about a stream's store, without the last one's end."""
    with naming_rights():
        document = find(kubectl, STREAM, stream)
        access = access_of(document, seals=question["ask"] == "verify")
        pod = pod_of(document, access, _surroundings(kubectl, stream, options.image), options.memory, options.deadline)
        in_namespace, name = Kubectl(namespace_of(document), options=kubectl.options), name_of(pod)
        asking = {"uri": at(document, "spec", "table", "uri"), "storage": access.storage, "sealKeys": access.seal_keys}
        in_namespace.create(pod, dry_run=False)
        try:
            _wait(in_namespace, name, options.start)
            reader = ("exec", name, "--stdin", "--quiet", f"--container={CONTAINER}", "--", *READER)
            lines = in_namespace.lines(*reader, stdin=json.dumps({**asking, **question}) + "\n")
            try:
                yield _answered(lines)
            finally:
                lines.close()
        finally:
            _remove(in_namespace, name)


def _remove(kubectl: Kubectl, name: str) -> None:
    """Delete the pod, which may be gone: the drain of its node takes it, too."""
    try:
        kubectl.delete("pods", name, dry_run=False)
    except KubectlError as error:
        if error.reason != "NotFound":
            raise


class Page:
    """The messages of an answer as they come."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._end: dict[str, Any] = {}

    def __iter__(self) -> Iterator[str]:
        for word, text in self._lines:
            if word == "end":
                self._end = json.loads(text)
            else:
                yield text

    def tell_next(self) -> None:
        """Once all are read: say on standard error where the next page begins, if there may be one."""
        if following := self._end.get("next"):
            echo(f"more: --position {following}", err=True)


@contextmanager
def naming_rights() -> Iterator[None]:
    """Say which ClusterRole a caller lacks, and if an image has no reader."""
    try:
        yield
    except KubectlError as error:
        if error.reason == "Forbidden" and " cannot " in str(error):
            raise UserError(f"{error}; {_RIGHTS}") from None
        if "No module named" in str(error):
            raise UserError(
                "the image has no reader, it is of an earlier release: give a later one by --image"
            ) from None
        raise


def _surroundings(kubectl: Kubectl, stream: str, image: str | None) -> Surroundings:
    """Those of the newest run of the stream that is still there, or of any other in the namespace."""
    try:
        applications = kubectl.items(_APPLICATIONS, f"{MANAGED_BY}={MANAGER}")
    except KubectlError:
        if image is None:
            raise
        applications = []
    own = [one for one in applications if labels_of(one).get(OF_STREAM) == stream]
    newest = max(own or applications, key=lambda one: str(at(one, "metadata", "creationTimestamp")), default=None)
    if around := surroundings_of(newest, image):
        return around
    raise UserError("no run is there to take the image from: give it by --image, or trigger a run", BAD_INPUT)


def _wait(kubectl: Kubectl, name: str, patience: float) -> None:
    """Wait until the pod runs."""
    end = time.monotonic() + patience
    while not runs(pod := kubectl.get("pods", name)):
        if words := why_not(pod):
            raise UserError(f"pod {name} does not start: {words}")
        if time.monotonic() > end:
            raise UserError(f"pod {name} does not run after {patience:g} s: {waits_for(pod)}")
        time.sleep(_PAUSE)


def _answered(lines: Iterator[str]) -> Iterator[Line]:
    """The lines up to the last one; broken messages are told as they come, and make it fail."""
    broken = 0
    for line in lines:
        word, _, text = line.partition(" ")
        if word == "broken":
            broken += 1
            echo(f"broken: {json.loads(text)['message']}", err=True)
            continue
        if word == "error":
            error = json.loads(text)
            raise UserError(str(error["message"]), BAD_INPUT if error.get("bad") else FAILED)
        yield word, text
        if word in _LAST:
            break
    else:
        raise UserError("the answer broke off: the pod or the connection to it has ended")
    if broken:
        raise UserError(f"{broken} {'message is' if broken == 1 else 'messages are'} not what was stored")
