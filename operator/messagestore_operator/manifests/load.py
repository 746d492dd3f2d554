"""Manifests from files, folders or standard input: all resources, or all problems at once.

Problems between resources are missing references, two stores in one folder, and folders that overlap.
"""

import base64
import binascii
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path as FilePath
from typing import Any, TypeAlias

from pydantic import ValidationError

from messagestore_operator.api import KINDS, MessageStream, ReplayJob, Resource, RetentionPolicy, parse_resource
from messagestore_operator.manifests.problem import Path, Problem, message_of
from messagestore_operator.manifests.yaml_tree import YamlDocument, read_documents
from messagestore_operator.names import API_VERSION, GROUP
from messagestore_operator.tenancy.adoption import is_released
from messagestore_operator.tenancy.predicates import predicate_problems
from messagestore_operator.translate.folders import overlaps
from messagestore_operator.translate.unsupported import refusals

STANDARD_INPUT = "-"
_SUFFIXES = (".yaml", ".yml", ".json")
MAX_FILE_BYTES = 16 * 2**20

Name: TypeAlias = tuple[str, str]
"""A namespace, and the name of a resource in it."""


@dataclass(frozen=True)
class Loaded:
    """A resource and where it was read."""

    resource: Resource
    document: YamlDocument
    prefix: Path = ()

    def problem(self, path: Path, message: str) -> Problem:
        """A problem of one of the resource's fields."""
        return self.document.problem((*self.prefix, *path), message)

    def unsupported(self) -> list[Problem]:
        """Problems with fields that this release supports nowhere."""
        return [self.problem(refused.path, refused.message) for refused in refusals(self.resource)]


def reference_problems(loaded: Sequence[Loaded], refused: Iterable[Name] = ()) -> list[Problem]:
    """Problems between resources. In a cluster they may not be problems, as other resources may exist there.

    Args:
        loaded: the resources.
        refused: MessageStreams that have problems of their own.
    """
    streams = [(item, item.resource) for item in loaded if isinstance(item.resource, MessageStream)]
    known = {stream.identity[1:] for _, stream in streams} | set(refused)
    problems = list(_shared_folders(streams))
    for item in loaded:
        if isinstance(item.resource, RetentionPolicy):
            problems += _of_policy(item, item.resource, known)
            if not refused:
                problems += _of_selector(item, item.resource, [stream for _, stream in streams])
        elif isinstance(item.resource, ReplayJob):
            problems += _of_replay(item, item.resource, known)
    return problems


def overlap_problems(loaded: Sequence[Loaded]) -> list[Problem]:
    """Folders that overlap with those of an earlier resource, and must not.

    A stream that has released its table uses no folder any more.
    """
    problems: list[Problem] = []
    earlier: list[Resource] = []
    for item in loaded:
        if isinstance(item.resource, MessageStream) and is_released(item.resource):
            continue
        problems += [item.problem(refused.path, refused.message) for refused in overlaps(item.resource, earlier)]
        earlier.append(item.resource)
    return problems


def _shared_folders(streams: Sequence[tuple[Loaded, MessageStream]]) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for item, stream in streams:
        if is_released(stream):
            continue
        folder = stream.spec.table.uri.rstrip("/")
        owner = owners.setdefault(folder, stream.metadata.name)
        if owner != stream.metadata.name:
            yield item.problem(("spec", "table", "uri"), f"is the folder of MessageStream {owner} too")


def _of_policy(item: Loaded, policy: RetentionPolicy, known: Set[Name]) -> Iterator[Problem]:
    for index, reference in enumerate(policy.spec.stream_refs):
        if (policy.metadata.namespace, reference.name) not in known:
            yield item.problem(("spec", "streamRefs", index, "name"), _missing(reference.name))


def _of_selector(item: Loaded, policy: RetentionPolicy, streams: Iterable[MessageStream]) -> Iterator[Problem]:
    if policy.spec.stream_selector is not None and not any(
        stream.metadata.namespace == policy.metadata.namespace and policy.selects(stream.metadata.labels)
        for stream in streams
    ):
        yield item.problem(("spec", "streamSelector"), "no MessageStream in the files has these labels")


def _of_replay(item: Loaded, replay: ReplayJob, known: Set[Name]) -> Iterator[Problem]:
    namespace = replay.metadata.namespace
    if (namespace, replay.spec.stream_ref.name) not in known:
        yield item.problem(("spec", "streamRef", "name"), _missing(replay.spec.stream_ref.name))
    for path, to in replay.spec.places:
        if to.stream is not None and (namespace, to.stream.name) not in known:
            yield item.problem((*path, "stream", "name"), _missing(to.stream.name))


def _missing(name: str) -> str:
    return f"there is no MessageStream {name} of this namespace in the files"


@dataclass(frozen=True)
class Secret:
    """A Kubernetes Secret; its ``repr`` hides its values."""

    namespace: str
    name: str
    data: Mapping[str, bytes] = field(repr=False)


def secret_problems(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """The problems of a document that should be a Secret."""
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        yield ("metadata", "name"), "is required"
    for part in ("data", "stringData"):
        values = document.get(part) or {}
        if not isinstance(values, Mapping):
            yield (part,), "must be a mapping"
            continue
        for key, value in values.items():
            if not isinstance(value, str):
                yield (part, key), "must be a string"
            elif part == "data" and _decoded(value) is None:
                yield (part, key), "must be in base64; stringData takes plain text"


def secret_of(document: Mapping[str, Any]) -> Secret:
    """Make a Secret from a valid document; as in Kubernetes, stringData overrides data."""
    metadata = document["metadata"]
    data = {key: _decoded(value) or b"" for key, value in (document.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (document.get("stringData") or {}).items()}
    return Secret(str(metadata.get("namespace") or "default"), metadata["name"], {**data, **plain})


def _decoded(value: str) -> bytes | None:
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


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
    collector, given = _Collector(), list(paths)
    for path in given:
        for file, text in collector.texts(path):
            collector.add_all(file, text)
    return collector.result(", ".join(given))


def load_text(file: str, text: str) -> LoadResult:
    """Read and check the manifests of one text; ``file`` is its name in problems."""
    collector = _Collector()
    collector.add_all(file, text)
    return collector.result(file)


@dataclass
class _Collector:
    """Collects resources and problems, document by document."""

    loaded: list[Loaded] = field(default_factory=list)
    secrets: list[Secret] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    locations: dict[tuple[str, ...], str] = field(default_factory=dict)
    read: set[FilePath] = field(default_factory=set)
    refused_streams: set[Name] = field(default_factory=set)

    def texts(self, path: str) -> Iterator[tuple[str, str]]:
        """The files of a path, with their contents."""
        if path == STANDARD_INPUT:
            try:
                yield "<stdin>", sys.stdin.buffer.read().decode("utf-8-sig")
            except UnicodeDecodeError:
                self._refuse_file("<stdin>", "is not UTF-8")
            return
        for file in self._files(FilePath(path)):
            # A file may be named beside its folder.
            if file.resolve() in self.read:
                continue
            self.read.add(file.resolve())
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
        try:
            if not path.is_dir():
                return [path]
            files = sorted(file for file in path.iterdir() if file.suffix in _SUFFIXES and file.is_file())
        except OSError as error:
            self._refuse_file(path, f"can't be read: {error.strerror}")
            return []
        if not files:
            self._refuse_file(path, f"has no file that ends in {', '.join(_SUFFIXES)}")
        return files

    def _refuse_file(self, file: FilePath | str, message: str) -> None:
        self.problems.append(Problem(str(file), 1, 1, "", message))

    def add_all(self, file: str, text: str) -> None:
        """Add the documents of a file."""
        documents, problems = read_documents(file, text)
        self.problems += problems
        for document in documents:
            self.add(document, document.data, ())

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
            metadata = data.get("metadata")
            if data["kind"] == "MessageStream" and isinstance(metadata, Mapping):
                self.refused_streams.add((str(metadata.get("namespace", "default")), str(metadata.get("name"))))
            return
        if self._is_first(document, prefix, resource.identity):
            self.loaded.append(Loaded(resource, document, prefix))

    def _is_first(self, document: YamlDocument, prefix: Path, identity: tuple[str, str, str]) -> bool:
        start = document.problem(prefix, "")
        earlier = self.locations.get(identity)
        if earlier is None:
            self.locations[identity] = f"{start.file}:{start.line}"
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

    def result(self, files: str) -> LoadResult:
        """The result, with problems between documents; ``files`` names all of them."""
        unresolved = tuple(reference_problems(self.loaded, self.refused_streams))
        self.problems += overlap_problems(self.loaded)
        if not (self.loaded or self.secrets or self.problems):
            self.problems.append(Problem(files, 1, 1, "", "the files have no resource"))
        return LoadResult(
            tuple(self.loaded), tuple(self.secrets), tuple(self.problems), (*self.warnings, *unresolved), unresolved
        )


def _almost_known(document: YamlDocument, kind: str, version: str, prefix: Path) -> Problem:
    if kind in KINDS:
        return document.problem((*prefix, "apiVersion"), f"must be {API_VERSION}, not {version}")
    near = get_close_matches(kind, KINDS, n=1)
    hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(KINDS)}"
    return document.problem((*prefix, "kind"), f"there is no kind {kind} in {GROUP}{hint}")
