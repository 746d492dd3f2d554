"""YAML documents as plain data, with the line of each field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from messagestore_operator.manifests.problem import Path, Problem, path_text
from messagestore_operator.manifests.yaml_scalars import other_key, other_reading, value_of

MAX_VALUES = 200_000
"""Maximum number of values in a document. Each use of an alias counts: a few lines of YAML can expand to billions."""
MAX_DEPTH = 100

_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class YamlDocument:
    """One YAML document: its data, its file, and its nodes, which have the lines of fields."""

    file: str
    data: Any
    root: Node

    def problem(self, path: Path, message: str) -> Problem:
        """A problem of a field, at its line, or at that of its nearest existing parent."""
        line, column = self._location(path)
        return Problem(self.file, line, column, path_text(path), message)

    @property
    def line(self) -> int:
        """The line that the document begins on."""
        return int(self.root.start_mark.line) + 1

    def _location(self, path: Path) -> tuple[int, int]:
        node, mark = self.root, self.root.start_mark
        for step in path:
            child = _child(node, step)
            if child is None:
                break
            mark, node = child
        return int(mark.line) + 1, int(mark.column) + 1


def _child(node: Node, step: str | int) -> tuple[Any, Node] | None:
    if isinstance(node, SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark, node.value[step]
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark, value
    return None


def read_documents(file: str, text: str) -> tuple[list[YamlDocument], list[Problem]]:
    """Read the documents of one file up to the first syntax error, which is a problem."""
    documents: list[YamlDocument] = []
    problems: list[Problem] = []
    try:
        for root in YAML(typ="safe", pure=True).compose_all(text):
            if root is None:
                continue
            reader = _Parser(file)
            data = reader.convert(root, ())
            problems += reader.problems
            documents.append(YamlDocument(file, data, root))
    except RecursionError:
        problems.append(Problem(file, 1, 1, "", "is nested too deeply"))
    except YAMLError as error:
        problems.append(_syntax_problem(file, error))
    return documents, problems


def _syntax_problem(file: str, error: YAMLError) -> Problem:
    mark = error.problem_mark or error.context_mark if isinstance(error, MarkedYAMLError) else None
    said = error.problem if isinstance(error, MarkedYAMLError) and error.problem else str(error).partition("\n")[0]
    message = f"is not valid YAML: {said}"
    return Problem(file, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1, "", message)


@dataclass
class _Parser:
    """Converts nodes to plain data; a node that can't be converted becomes null and a problem."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    count: int = 0

    def convert(self, node: Node, path: Path) -> Any:
        self.count += 1
        if self.count > MAX_VALUES or len(path) > MAX_DEPTH:
            if self.count <= MAX_VALUES + 1:
                self._refuse(node, path, "the document is too large, or nested too deeply")
            # The count stays over its limit, so the rest is not read.
            self.count = MAX_VALUES + 2
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.convert(item, (*path, index)) for index, item in enumerate(node.value)]
        assert isinstance(node, ScalarNode)
        return self._scalar(node, path)

    def _mapping(self, node: MappingNode, path: Path) -> dict[str, Any]:
        own: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, value in node.value:
            if key.tag == f"{_TAG}merge":
                for part in self._merge_parts(value):
                    merged = {**self._mapping(part, path), **merged}
                continue
            name = self._key(key, path)
            if name in own:
                self._refuse(key, (*path, name), "is given twice")
            own[name] = self.convert(value, (*path, name))
        return {**merged, **own}

    def _merge_parts(self, node: Node) -> Iterator[MappingNode]:
        parts = node.value if isinstance(node, SequenceNode) else [node]
        yield from (part for part in parts if isinstance(part, MappingNode))

    def _key(self, node: Node, path: Path) -> str:
        if not isinstance(node, ScalarNode):
            self._refuse(node, path, "a key must be a plain text")
            return ""
        # JSON has only strings as keys; those of `1: a` and `true: a` are "1" and "true".
        name = self._characters(node, path)
        if node.style is None and (theirs := other_key(name)) is not None:
            self._refuse(node, (*path, name), f"kubectl reads this key as {theirs}: put it in quotes")
        return name

    def _scalar(self, node: ScalarNode, path: Path) -> Any:
        text = self._characters(node, path)
        try:
            value = value_of(str(node.tag), text)
        except ValueError:
            self._refuse(node, path, f"{node.value!r} can't be read as {str(node.tag).removeprefix(_TAG)}")
            return None
        if node.style is None and (theirs := other_reading(node.value, value)) is not None:
            words = f"kubectl reads {node.value} as {theirs}, YAML 1.2 as {json.dumps(value)}"
            self._refuse(node, path, f"{words}: put it in quotes, or write what it means")
        return value

    def _characters(self, node: ScalarNode, path: Path) -> str:
        """A scalar's text. JSON escapes some characters as pairs of surrogates, which a reader of YAML leaves apart."""
        try:
            return str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            self._refuse(node, path, "holds half of a surrogate pair, which is no character")
            return ""

    def _refuse(self, node: Node, path: Path, message: str) -> None:
        mark = node.start_mark
        self.problems.append(Problem(self.file, mark.line + 1, mark.column + 1, path_text(path), message))
