"""Observes a run's writes outside its own process."""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from pyspark.errors import PySparkException

import messagestore_core
import messagestore_jobs
from messagestore_core.store.fence import observing

T = TypeVar("T")


class UnheardError(PySparkException):
    """A write succeeded, and its answer was lost."""


def unheard(run: Callable[[], T], meanwhile: Callable[[], object] = lambda: None) -> tuple[T, set[str]]:
    """Retry a run until it ends, while the first answer of each kind of write is lost; returns result and kinds.

    ``meanwhile`` is called at each lost answer.
    """
    lost: set[str] = set()

    def observer(name: str, moment: str) -> None:
        if moment == "after" and name not in lost:
            lost.add(name)
            meanwhile()
            raise UnheardError("connection reset by peer")

    with observing(observer):
        while True:
            before = len(lost)
            try:
                return run(), lost
            except UnheardError:
                assert len(lost) > before


def patterns_in_code() -> set[str]:
    """The names of the jobs' external writes, as regular expressions, without names that callers pass."""
    folders = [Path(package.__file__).parent for package in (messagestore_core, messagestore_jobs) if package.__file__]
    return {name for folder in folders for path in folder.rglob("*.py") for name in _patterns(path)}


def _patterns(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.With):
            continue
        for item in node.items:
            match item.context_expr:
                case ast.Call(func=ast.Attribute(attr="step"), args=[ast.Constant(value=str(name))]):
                    yield re.escape(name)
                case ast.Call(func=ast.Attribute(attr="step"), args=[ast.JoinedStr(values=parts)]):
                    yield "".join(re.escape(p.value) if isinstance(p, ast.Constant) else ".+" for p in parts)
