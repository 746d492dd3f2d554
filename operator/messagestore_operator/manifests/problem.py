"""A problem of a manifest: its place, and plain messages for pydantic's errors."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

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


Words = Callable[[Mapping[str, Any], Any], str]


def message_of(error: Mapping[str, Any]) -> str:
    """The message for one of pydantic's errors."""
    words = _WORDS.get(error["type"])
    return words(error.get("ctx", {}), error.get("input")) if words else str(error["msg"])


def _string(context: Mapping[str, Any], value: Any) -> str:
    return "must be a string" + ("; put it in quotes" if isinstance(value, (bool, int, float)) else "")


def _choice(context: Mapping[str, Any], value: Any) -> str:
    choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
    by_lower_case = {choice.lower(): choice for choice in choices}
    near = get_close_matches(str(value).lower(), by_lower_case, n=1) if isinstance(value, str) else []
    hint = f"; did you mean {by_lower_case[near[0]]}?" if near else ""
    return ("must be " if len(choices) == 1 else "must be one of ") + ", ".join(choices) + hint


def _pattern(context: Mapping[str, Any], value: Any) -> str:
    return f"must match the pattern {context['pattern']}"


def _text(words: str) -> Words:
    return lambda context, value: words.format(**context)


_WORDS: Mapping[str, Words] = {
    "missing": _text("is required"),
    "string_type": _string,
    "string_pattern_mismatch": _pattern,
    "string_too_long": _text("must be at most {max_length} characters long"),
    "string_too_short": _text("must not be empty"),
    "int_type": _text("must be a whole number"),
    "int_from_float": _text("must be a whole number"),
    "float_type": _text("must be a number"),
    "bool_type": _text("must be true or false"),
    "literal_error": _choice,
    "greater_than_equal": _text("must be at least {ge}"),
    "less_than_equal": _text("must be at most {le}"),
    "too_long": _text("must have at most {max_length} entries"),
    "too_short": _text("must have at least {min_length} entry"),
    "tuple_type": _text("must be a list"),
    "dict_type": _text("must be a mapping"),
    "model_type": _text("must be a mapping with fields"),
    "none_required": _text("must be left out"),
}
