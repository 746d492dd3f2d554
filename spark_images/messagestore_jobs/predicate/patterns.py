"""Patterns of LIKE and RLIKE: only such as cannot make a running job throw, or take long."""

import re

MAX_PATTERN = 512
MAX_REPEAT = 1000
MAX_STEPS = 1000

_SIMPLE_LIKE = re.compile(r"%?[^%_\\]*%?|[^%_\\]+%[^%_\\]+")
_REPEAT = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}", re.ASCII)
_FLAGS = re.compile(r"\(\?[ims]+\)")
_GROUP = re.compile(r"\(\?:")
_LOOKAROUND = re.compile(r"\(\?<?[=!]")
_ESCAPES = frozenset("dDwWsStnrf")
_BOUNDARIES = frozenset("bB")
_SET_OPERATORS = ("&&", "--", "||", "~~")


def escape_like(pattern: str, escape: str) -> str:
    """Give a LIKE pattern with a backslash as its escape; ValueError when another sign than `%`, `_` is escaped."""
    _check_length(pattern)
    written = []
    rest = iter(pattern)
    for character in rest:
        sign = next(rest, "") if character == escape else None
        if sign is None:
            written.append("\\\\" if character == "\\" else character)
        elif sign in ("%", "_", escape):
            written.append(f"\\{sign}" if sign in "%_\\" else sign)
        else:
            raise ValueError(f"is a pattern in which {escape} stands before something else than %, _ or itself")
    return "".join(written)


def is_simple_like(pattern: str) -> bool:
    """Tell whether a pattern is one that Spark makes a plain comparison of."""
    return _SIMPLE_LIKE.fullmatch(pattern) is not None


def check_regex(pattern: str) -> None:
    """Refuse (ValueError) a regular expression outside what RE2 and Python both take and read alike."""
    _check_length(pattern)
    flags = _FLAGS.match(pattern)
    index = flags.end() if flags else 0
    steps, previous = _Steps(), ""
    while index < len(pattern):
        end = _skip_class(pattern, index) if pattern[index] == "[" else _skip_item(pattern, index)
        part = pattern[index:end]
        if part == "+" and (previous in ("*", "+", "?") or _REPEAT.fullmatch(previous)):
            raise ValueError("is a pattern with a repetition that gives nothing back, as a*+, which RE2 has not")
        steps.add(part)
        index, previous = end, part
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"is no regular expression: {error}") from None


class _Steps:
    """Counts how long a pattern is once each repetition {n} is written out."""

    def __init__(self) -> None:
        self._open = [0]
        self._last = 0

    def add(self, part: str) -> None:
        """Count one more part; ValueError past the bound."""
        repeat = _REPEAT.fullmatch(part)
        if part == ")" and len(self._open) > 1:
            self._last = self._open.pop() + 1
        elif part.startswith("("):
            self._open.append(0)
            return
        elif repeat:
            times = max(int(count) for count in repeat.groups() if count)
            if times > MAX_REPEAT:
                raise ValueError(f"is a pattern that repeats more than {MAX_REPEAT} times")
            self._open[-1] -= self._last
            self._last *= times + 1
        else:
            self._last = 1
        self._open[-1] += self._last
        if sum(self._open) > MAX_STEPS:
            raise ValueError(f"is a pattern of more than {MAX_STEPS} steps once its repetitions are written out")


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
        if _LOOKAROUND.match(pattern, index):
            raise ValueError("is a pattern that looks around, which RE2 does not: no (?=…), (?!…), (?<=…), (?<!…)")
        group = _GROUP.match(pattern, index)
        if not group:
            raise ValueError("is a pattern with a group other than (…) and (?:…)")
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
