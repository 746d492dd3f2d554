"""Manifests from files, folders or standard input: all resources, or all problems at once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from messagestore_operator.api import API_VERSION, GROUP, KINDS, Resource, parse_resource
from messagestore_operator.manifests.predicates import predicate_problems
from messagestore_operator.manifests.problem import Path, Problem
from messagestore_operator.manifests.references import Loaded, overlap_problems, reference_problems
from messagestore_operator.manifests.secrets import Secret, secret_of, secret_problems
from messagestore_operator.manifests.wording import message_of
from messagestore_operator.manifests.yaml_tree import YamlDocument, read_documents

STANDARD_INPUT = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 16 * 2**20


@dataclass(frozen=True)
class LoadResult:
    """The contents of the files, in their order.

    ``problems`` are errors. ``warnings`` are skipped documents, and references to resources that the files don't have:
    a cluster may have them, a local run doesn't (``unresolved`` has only those references).
    """

    loaded: tuple[Loaded, ...] = ()
    secrets: tuple[Secret, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    unresolved: tuple[Problem, ...] = ()

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources, in order."""
        return tuple(item.resource for item in self.loaded)


def load(paths: Iterable[str]) -> LoadResult:
    """Read and check all manifests; a path is a file, a folder or ``-`` for standard input."""
    collector = _Collector()
    for path in paths:
        for file, text in collector.texts(path):
            documents, problems = read_documents(file, text)
            collector.problems += problems
            for document in documents:
                collector.add(document, document.data, ())
    return collector.result()


@dataclass
class _Collector:
    """Collects resources and problems, document by document."""

    loaded: list[Loaded] = field(default_factory=list)
    secrets: list[Secret] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    locations: dict[tuple[str, ...], str] = field(default_factory=dict)

    def texts(self, path: str) -> Iterator[tuple[str, str]]:
        """The files of a path, with their contents."""
        if path == STANDARD_INPUT:
            yield "<stdin>", sys.stdin.read()
            return
        for file in self._files(FilePath(path)):
            try:
                if file.stat().st_size > MAX_FILE_BYTES:
                    self._refuse_file(file, f"is larger than {MAX_FILE_BYTES // 2**20} MiB")
                else:
                    yield str(file), file.read_text(encoding="utf-8-sig")
            except OSError as error:
                self._refuse_file(file, f"can't be read: {error.strerror}")
            except UnicodeDecodeError:
                self._refuse_file(file, "is not UTF-8")

    def _files(self, path: FilePath) -> list[FilePath]:
        if not path.is_dir():
            return [path]
        files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
        if not files:
            self._refuse_file(path, f"has no file that ends in {', '.join(_SUFFIXES)}")
        return files

    def _refuse_file(self, file: FilePath, message: str) -> None:
        self.problems.append(Problem(str(file), 1, 1, "", message))

    def add(self, document: YamlDocument, data: Any, prefix: Path) -> None:
        """Add one document, or one item of a List; an empty document is skipped, as kubectl does."""
        if data is None and not prefix:
            return
        if not isinstance(data, Mapping):
            self.problems.append(document.problem(prefix, "must be a resource: a mapping with apiVersion and kind"))
            return
        known = (data.get("apiVersion"), data.get("kind"))
        if known == ("v1", "List"):
            self._add_list(document, data, prefix)
        elif known == ("v1", "Secret"):
            self._add_secret(document, data, prefix)
        elif data.get("kind") in KINDS and data.get("apiVersion") == API_VERSION:
            self._add_resource(document, data, prefix)
        else:
            self._add_unknown(document, data, prefix)

    def _add_list(self, document: YamlDocument, data: Mapping[str, Any], prefix: Path) -> None:
        items = data.get("items")
        if not isinstance(items, list):
            self.problems.append(document.problem((*prefix, "items"), "must be a list"))
            return
        for index, item in enumerate(items):
            self.add(document, item, (*prefix, "items", index))

    def _add_secret(self, document: YamlDocument, data: Mapping[str, Any], prefix: Path) -> None:
        problems = [document.problem((*prefix, *path), message) for path, message in secret_problems(data)]
        self.problems += problems
        if not problems:
            secret = secret_of(data)
            if self._is_first(document, prefix, ("Secret", secret.namespace, secret.name)):
                self.secrets.append(secret)

    def _add_resource(self, document: YamlDocument, data: Mapping[str, Any], prefix: Path) -> None:
        refused = [document.problem((*prefix, *path), message) for path, message in predicate_problems(data)]
        self.problems += refused
        try:
            resource = parse_resource(data)
        except ValidationError as error:
            for line in error.errors(include_url=False):
                self.problems.append(document.problem((*prefix, *line["loc"]), message_of(line)))
            return
        if self._is_first(document, prefix, resource.identity):
            self.loaded.append(Loaded(resource, document, prefix))

    def _is_first(self, document: YamlDocument, prefix: Path, identity: tuple[str, str, str]) -> bool:
        start = document.problem(prefix, "")
        location = f"{start.file}:{start.line}"
        earlier = self.locations.setdefault(identity, location)
        if earlier == location:
            return True
        kind, _, name = identity
        self.problems.append(document.problem((*prefix, "metadata", "name"), f"{kind} {name} is in {earlier} already"))
        return False

    def _add_unknown(self, document: YamlDocument, data: Mapping[str, Any], prefix: Path) -> None:
        kind, version = data.get("kind"), data.get("apiVersion")
        if not isinstance(kind, str) or not isinstance(version, str):
            missing = "kind" if not isinstance(kind, str) else "apiVersion"
            self.problems.append(document.problem((*prefix, missing), "is required"))
        elif kind in KINDS or version.partition("/")[0] == GROUP:
            self.problems.append(_almost_known(document, kind, version, prefix))
        else:
            self.warnings.append(document.problem((*prefix, "kind"), f"{version} {kind} is skipped"))

    def result(self) -> LoadResult:
        """The result, with problems between documents."""
        unresolved = tuple(reference_problems(self.loaded))
        self.problems += overlap_problems(self.loaded)
        if not (self.loaded or self.secrets or self.problems):
            self.problems.append(Problem(STANDARD_INPUT, 1, 1, "", "the files have no resource"))
        return LoadResult(
            tuple(self.loaded),
            tuple(self.secrets),
            tuple(self.problems),
            (*self.warnings, *unresolved),
            unresolved,
        )


def _almost_known(document: YamlDocument, kind: str, version: str, prefix: Path) -> Problem:
    if kind in KINDS:
        return document.problem((*prefix, "apiVersion"), f"must be {API_VERSION}, not {version}")
    near = get_close_matches(kind, KINDS, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(KINDS)}"
    return document.problem((*prefix, "kind"), f"there is no kind {kind} in {GROUP}{hint}")
