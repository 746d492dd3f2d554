"""YAML documents as plain data, with the line of each field.

Plain scalars are read by YAML 1.2. kubectl and Helm use sigs.k8s.io/yaml, which follows YAML 1.1 in part: there ``on``
is true, and ``0100`` is 64. A manifest must mean the same in a local run and in a cluster, so a scalar that they read
otherwise is refused.
"""

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from messagestore_core.text import clipped
from messagestore_operator.manifests.problem import Path, Problem, path_text

MAX_VALUES = 200_000
"""Maximum number of values in a document. Each use of an alias counts: a few lines of YAML can expand to billions."""
MAX_DEPTH = 100
_LONGEST = 60
"""Characters of a value that a problem tells."""
_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {
    word: value
    for value, words in ((True, ("y", "yes", "on", "true")), (False, ("n", "no", "off", "false")))
    for plain in words
    for word in (plain, plain.capitalize(), plain.upper())
}
_NULLS = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[bB](?P<b>[01]+)|0[oO]?(?P<o>[0-7]+)|(?P<d>[0-9]+))"
    r"|0b(?P<signed>[-+][01]+)"
)
_BASES = {"x": 16, "b": 2, "o": 8, "d": 10, "signed": 2}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


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
                    merged = {**(self.convert(part, path) or {}), **merged}
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
            said = "the value" if _is_secret(path) else repr(clipped(text, _LONGEST))
            self._refuse(node, path, f"{said} can't be read as {str(node.tag).removeprefix(_TAG)}")
            return None
        if node.style is None and (theirs := other_reading(node.value, value)) is not None:
            words = f"kubectl reads {node.value} as {theirs}, YAML 1.2 as {json.dumps(value)}"
            if _is_secret(path):
                words = "kubectl reads the value otherwise than YAML 1.2"
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


def _is_secret(path: Path) -> bool:
    """Whether a field may be a Secret's value, which no problem tells."""
    return not {"data", "stringData"}.isdisjoint(path[:-1])


def value_of(tag: str, text: str) -> Any:
    """The value of a scalar by its resolved tag. Timestamps stay text, as in Kubernetes.

    Raises:
        ValueError: JSON has no such value.
    """
    match tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return _integer(text)
        case "float":
            return _number(text)
    return text


def other_reading(text: str, own: Any) -> str | None:
    """What kubectl reads in a plain scalar, as JSON; None if it is ``own``, the value by YAML 1.2."""
    theirs = _of_kubectl(text)
    same = own == theirs and isinstance(own, bool) == isinstance(theirs, bool)
    return None if same else json.dumps(theirs)


def other_key(text: str) -> str | None:
    """The key that kubectl makes of a plain scalar, as JSON; None if it is the text."""
    theirs = _of_kubectl(text)
    key = theirs if isinstance(theirs, str) else json.dumps(theirs)
    return None if key == text and theirs is not None else json.dumps(key)


def _of_kubectl(text: str) -> Any:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NULLS:
        return None
    plain = text.replace("_", "") if text[0] in "+-0123456789" else text
    integer = _INTEGER.fullmatch(plain)
    if integer:
        kind = next(name for name in _BASES if integer[name])
        # Python reads no number of thousands of digits, which has more than 64 bits anyway.
        with suppress(ValueError):
            number = int(f"{integer['sign'] or ''}{integer[kind]}", _BASES[kind])
            if -(1 << 63) <= number < 1 << 63:
                return number
    if _FLOAT.fullmatch(plain) and math.isfinite(float(plain)):
        return float(plain)
    return text


def _integer(text: str) -> int:
    plain = text.replace("_", "")
    return int(plain, 0) if re.match(r"[-+]?0[xob]", plain) else int(plain)


def _number(text: str) -> float:
    number = float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(number):
        raise ValueError(text)
    return number
