"""Watching what a run changes outside its own process."""

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import messagestore_jobs
from messagestore_jobs.store import external


@contextmanager
def observing(observer: Callable[[str, str], None]) -> Iterator[None]:
    """Call the observer around each external write of a block."""
    external.observe(observer)
    try:
        yield
    finally:
        external._observers.remove(observer)


def patterns_in_code() -> set[str]:
    """The names of the external writes that the jobs make, as regular expressions; not those that a caller gives."""
    return {name for path in Path(messagestore_jobs.__file__).parent.rglob("*.py") for name in _patterns(path)}


def _patterns(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "external_write":
            match node.args[0]:
                case ast.Constant(value=str(name)):
                    yield re.escape(name)
                case ast.JoinedStr(values=parts):
                    yield "".join(re.escape(p.value) if isinstance(p, ast.Constant) else ".+" for p in parts)
