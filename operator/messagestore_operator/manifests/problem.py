"""A problem of a manifest, and its place."""

from __future__ import annotations

from dataclasses import dataclass

Path = tuple[str | int, ...]


def path_text(path: Path) -> str:
    """A field's path as people write it, such as spec.rules[0].name."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".")


@dataclass(frozen=True)
class Problem:
    """One problem: its file, line and column (from one), the field's path, and the message."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}"
        return f"{location}: {self.path}: {self.message}" if self.path else f"{location}: {self.message}"
