"""A checked predicate as Spark SQL: for people, and for comparison with Spark's own parser."""

import unicodedata

from messagestore_core.predicate import Kind
from messagestore_core.predicate.expression import Call, Expression, Literal, Read
from messagestore_core.predicate.functions import CASTS

_BETWEEN = frozenset({"=", "<>", "<", "<=", ">", ">=", "AND", "OR", "LIKE"})
_BEHIND = frozenset({"IS NULL", "IS NOT NULL"})
_SIGNS = {"try_add": "+", "try_subtract": "-", "try_multiply": "*", "try_divide": "/", "try_mod": "%"}


def sql(expression: Expression) -> str:
    """The expression in Spark's SQL, with parentheses around each part."""
    match expression:
        case Literal():
            return _literal(expression)
        case Read(column, None):
            return f"`{column}`"
        case Read(column, field):
            return f"`{column}`.`{field}`"
        case Call(name, (value,)) if name in CASTS:
            return f"TRY_CAST({sql(value)} AS {CASTS[name].upper()})"
        case Call(name, parts):
            return _call(name, [sql(part) for part in parts])


def own(expression: Expression) -> str:
    """The expression as a predicate again, with parentheses around each part."""
    match expression:
        case Call(("decimal" | "timestamp"), (value,)):
            return own(value)
        case Call(name, (left, right)) if name in _SIGNS:
            return f"({own(left)} {_SIGNS[name]} {own(right)})"
        case Call("messagestore.like", (value, pattern)):
            return f"({own(value)} LIKE {own(pattern)})"
        case Call(name, parts):
            written = [own(part) for part in parts]
            return _call(name.removeprefix("messagestore.").removesuffix("_text"), written)
    return sql(expression)


def write_string(value: str) -> str:
    """A string literal; invisible characters and the character that Spark replaces are escaped."""
    return f"'{''.join(map(_escape, value))}'"


def _literal(literal: Literal) -> str:
    value = literal.value
    if not isinstance(value, str):
        return str(value).lower()
    match literal.kind:
        case Kind.TEXT:
            return write_string(value)
        case Kind.TIMESTAMP:
            return f"TIMESTAMP '{value}'"
        case Kind.INTERVAL:
            count, _, unit = value.partition(" ")
            return f"INTERVAL '{count}' {unit}"
        case _:
            return value


def _call(name: str, parts: list[str]) -> str:
    if name in _BETWEEN:
        return f"({f' {name} '.join(parts)})" if len(parts) > 1 else parts[0]
    if name in _BEHIND:
        return f"({parts[0]} {name})"
    match name:
        case "NOT":
            return f"(NOT {parts[0]})"
        case "BETWEEN":
            return f"({parts[0]} BETWEEN {parts[1]} AND {parts[2]})"
        case "IN":
            return f"({parts[0]} IN ({', '.join(parts[1:])}))"
        case "[]":
            return f"{parts[0]}[{parts[1]}]"
        case _:
            return f"{name}({', '.join(parts)})"


def _escape(character: str) -> str:
    if character in "\\'":
        return f"\\{character}"
    if character == " " or (character != "$" and unicodedata.category(character)[0] not in "CZ"):
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
