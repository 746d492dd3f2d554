"""The words and signs of a predicate."""

import re
from typing import NamedTuple

from messagestore_core.predicate.literals import read_string
from messagestore_core.predicate.refusal import PredicateError, refusal

MAX_TEXT = 4096
MAX_TOKENS = 1500

_TOKEN = re.compile(
    r"""(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<number>\.?[0-9](?:[eE][+-]|[A-Za-z0-9_.])*)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<name>`[^`]*`)
    |(?P<space>[ \t\r\n]+)
    |(?P<sign><=>|<=|>=|<>|!=|==|\|\||&&|::|->|=>|--|/\*|\*/|[^'"`])""",
    re.DOTALL | re.VERBOSE,
)


class Token(NamedTuple):
    """A part of a predicate. ``kind`` is a group of the pattern, or "end"; ``key`` a word in lower case, or a sign."""

    kind: str
    key: str
    value: str
    at: slice


def tokenize(text: str) -> list[Token]:
    """Split a predicate; a token of kind "end" is last.

    Raises:
        PredicateError: it exceeds a bound, or has a text or a name without an end, or what is no Unicode text.
    """
    tokens, at = [], 0
    if len(text) > MAX_TEXT:
        raise PredicateError([refusal(text, slice(0, None), f"is longer than {MAX_TEXT} characters")])
    while at < len(text):
        match = _TOKEN.match(text, at)
        if not match:
            raise PredicateError([refusal(text, slice(at, None), "is a text or name without its closing quote")])
        at = match.end()
        if match.lastgroup != "space":
            tokens.append(_token(text, match, str(match.lastgroup)))
    if len(tokens) > MAX_TOKENS:
        raise PredicateError([refusal(text, slice(0, None), f"has more than {MAX_TOKENS} words and signs")])
    return [*tokens, Token("end", "", "", slice(len(text), len(text)))]


def _token(text: str, match: re.Match[str], kind: str) -> Token:
    source, at = match.group(), slice(*match.span())
    try:
        value = read_string(source) if kind == "text" else source.strip("`")
    except ValueError as error:
        raise PredicateError([refusal(text, at, str(error))]) from None
    if any(character == "\0" or "\ud800" <= character <= "\udfff" for character in source):
        raise PredicateError([refusal(text, at, "has a character that is no text (NUL, or half of a surrogate pair)")])
    return Token(kind, source.lower() if kind in ("word", "sign") else "", value, at)
