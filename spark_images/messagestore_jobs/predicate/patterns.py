"""Patterns of LIKE and RLIKE: only such as cannot make a running job throw."""

import re

MAX_PATTERN = 512

_REPEAT = re.compile(r"\{\d{1,4}(?:,\d{0,4})?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?[ims]+\)")
_GROUP = re.compile(r"\(\?(?::|=|!|<=|<!)")
_ESCAPES = frozenset("dDwWsStnrf")
_BOUNDARIES = frozenset("bB")
_SET_OPERATORS = ("&&", "--", "||", "~~")


def check_like(pattern: str, escape: str) -> None:
    """Refuse (ValueError) a LIKE pattern that escapes anything but `%`, `_` and the escape itself."""
    _check_length(pattern)
    rest = iter(pattern)
    for character in rest:
        if character == escape and next(rest, "") not in ("%", "_", escape):
            raise ValueError(f"is a pattern in which {escape} stands before something else than %, _ or itself")


def check_regex(pattern: str) -> None:
    """Refuse (ValueError) a regular expression outside what Java and Python both take and read alike."""
    _check_length(pattern)
    flags = _FLAGS.match(pattern)
    index = flags.end() if flags else 0
    while index < len(pattern):
        index = _skip_class(pattern, index) if pattern[index] == "[" else _skip_item(pattern, index)
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from None


def _check_length(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"is a pattern longer than {MAX_PATTERN} characters")


def _skip_item(pattern: str, index: int) -> int:
    """Give the index after the part that begins at `index`, outside a character class."""
    character = pattern[index]
    if character == "\\":
        return _skip_escape(pattern, index, _ESCAPES | _BOUNDARIES)
    if character in "{}":
        repeat = _REPEAT.match(pattern, index)
        if not repeat:
            raise ValueError("is a pattern with a brace that is no repetition {n}, {n,} or {n,m}: write \\{ or \\}")
        return repeat.end()
    if pattern.startswith("(?", index):
        group = _GROUP.match(pattern, index)
        if not group:
            raise ValueError("is a pattern with a group other than (?:…), (?=…), (?!…), (?<=…), (?<!…)")
        return group.end()
    return index + 1


def _skip_class(pattern: str, index: int) -> int:
    """Give the index after the character class that begins at `index`."""
    index += 2 if pattern.startswith("[^", index) else 1
    first = True
    while index < len(pattern):
        character = pattern[index]
        if character == "]" and not first:
            return index + 1
        if character in "[]" or pattern.startswith(_SET_OPERATORS, index):
            raise ValueError("is a pattern with [, &&, -- or the like inside a character class: escape it with \\")
        index = _skip_escape(pattern, index, _ESCAPES) if character == "\\" else index + 1
        first = False
    raise ValueError("is a pattern with a character class that is not closed")


def _skip_escape(pattern: str, index: int, letters: frozenset[str]) -> int:
    escaped = pattern[index + 1 : index + 2]
    if escaped in letters or (escaped.isascii() and escaped and not escaped.isalnum()):
        return index + 2
    raise ValueError(f"is a pattern with the escape \\{escaped}, which is not taken")
