"""Requests to the API server by kubectl itself, which knows contexts, proxies and every way to log in."""

import json
import os
import re
import subprocess
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from messagestore_operator.names import NAMES

PROGRAM = "kubectl"
MANAGER = "kubectl-messagestore"
"""The manager of the fields that the commands write."""
_REFUSAL = re.compile(r"[Ee]rror from server \((\w+)\): (?:error when \w+ \"[^\"]*\": )?(.*)")
_NO_CONTEXT = re.compile("connection to the server localhost:8080 was refused")
"""kubectl asks this server if its file names none."""
_NO_KIND = re.compile(f'have a resource type "({"|".join(one.plural for one in NAMES.values())})"')
_LOG_LINE = re.compile(r"[EWI]\d{4} ")
Document = dict[str, Any]


class KubectlError(Exception):
    """The API server refused a request, or could not be asked.

    Attributes:
        reason: Kubernetes' constant, such as NotFound; empty if no server gave one.
    """

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Kubectl:
    """kubectl with the options of a command.

    Attributes:
        namespace: None: that of the context.
        everywhere: all namespaces, for lists.
        options: to reach the cluster, such as ``--context``.
    """

    namespace: str | None = None
    everywhere: bool = False
    options: tuple[str, ...] = ()

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        """What kubectl prints.

        Raises:
            KubectlError: kubectl failed, or is missing.
        """
        try:
            done = subprocess.run(
                self._command(arguments), input=stdin, capture_output=True, text=True, errors="replace", check=False
            )
        except FileNotFoundError:
            raise _missing() from None
        if done.returncode != 0:
            raise error_of(done.stderr)
        return done.stdout

    def lines(self, *arguments: str, stdin: str | None = None) -> Generator[str]:
        """The lines that kubectl prints, as they come; what it reads stays open until the last one.

        Raises:
            KubectlError: kubectl failed, or is missing.
        """
        pipe = subprocess.PIPE
        given = None if stdin is None else pipe
        try:
            process = subprocess.Popen(
                self._command(arguments), stdin=given, stdout=pipe, stderr=pipe, text=True, errors="replace", bufsize=1
            )
        except FileNotFoundError:
            raise _missing() from None
        with process:
            try:
                if process.stdin and stdin is not None:
                    # Past the buffer, which would be written again at the end.
                    with suppress(BrokenPipeError):
                        os.write(process.stdin.fileno(), stdin.encode())
                yield from (line.rstrip("\n") for line in process.stdout or ())
            finally:
                process.terminate()
            said = process.stderr.read() if process.stderr else ""
        # A signal is this process' own: nobody reads on.
        if process.returncode > 0:
            raise error_of(said)

    def get(self, plural: str, name: str) -> Document:
        """An object."""
        return self._object("get", plural, name)

    def items(self, plurals: str, selector: str = "") -> list[Document]:
        """Objects of one or several kinds, with commas between."""
        listing = self._object("get", plurals, *(["--selector", selector] if selector else []))
        return cast(list[Document], listing.get("items") or [])

    def patch(self, plural: str, name: str, change: Document, *, dry_run: bool) -> Document:
        """Change the given fields of an object."""
        given = ["--type=merge", "--patch", json.dumps(change), *_writing(dry_run)]
        return self._object("patch", plural, name, *given)

    def create(self, document: Document, *, dry_run: bool) -> Document:
        """Create an object."""
        return self._object("create", "--filename", "-", *_writing(dry_run), stdin=json.dumps(document))

    def delete(self, plural: str, name: str, *, dry_run: bool) -> None:
        """Delete an object, without waiting until it is gone."""
        self.run("delete", plural, name, "--wait=false", *(["--dry-run=server"] if dry_run else []))

    def current_namespace(self) -> str:
        """The namespace of the requests, for messages."""
        if self.namespace is not None:
            return self.namespace
        try:
            return self.run("config", "view", "--minify", "--output=jsonpath={..namespace}").strip() or "default"
        except KubectlError:
            return "default"

    def _object(self, *arguments: str, stdin: str | None = None) -> Document:
        text = self.run(*arguments, "--output=json", stdin=stdin)
        return cast(Document, json.loads(text))

    def _command(self, arguments: Sequence[str]) -> list[str]:
        where = ["--all-namespaces"] if self.everywhere and arguments[0] == "get" else []
        chosen = [f"--namespace={self.namespace}"] if self.namespace is not None and not where else []
        # What follows -- is a command of a pod.
        return [PROGRAM, *chosen, *self.options, *arguments, *where]


def error_of(said: str) -> KubectlError:
    """The error of what kubectl printed to stderr."""
    text = "\n".join(line for line in said.strip().splitlines() if not _LOG_LINE.match(line))
    if refusal := _REFUSAL.search(text):
        return KubectlError(refusal[1], refusal[2].strip())
    words = text.removeprefix("error: ").removeprefix("Error: ") or "kubectl failed and said nothing"
    if _NO_CONTEXT.search(words):
        words = "the kubeconfig has no current context: choose one by --context, or another file by --kubeconfig"
    if _NO_KIND.search(words):
        words += "; install the operator in this cluster, or choose another one by --context"
    return KubectlError("", words)


def _missing() -> KubectlError:
    return KubectlError("", f"{PROGRAM} is not in PATH; the commands reach the cluster by it")


def _writing(dry_run: bool) -> list[str]:
    return [f"--field-manager={MANAGER}", *(["--dry-run=server"] if dry_run else [])]
