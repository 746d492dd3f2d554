"""Rules for conditions.

Patterns of LIKE and RLIKE are limited to those that can neither make a running job throw nor slow it down.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlglot import exp

from messagestore_core.predicate.columns import Kind
from messagestore_core.predicate.context import REFUSED_TERM, Context, Rule, Term
from messagestore_core.predicate.expression import Expression, Literal, call

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
_COMPARISONS: Mapping[type[exp.Expr], str] = MappingProxyType(
    {
        exp.EQ: "=",
        exp.NEQ: "<>",
        exp.NullSafeEQ: "<=>",
        exp.LT: "<",
        exp.LTE: "<=",
        exp.GT: ">",
        exp.GTE: ">=",
    }
)
_LIKES: Mapping[type[exp.Expr], str] = MappingProxyType({exp.Like: "LIKE", exp.ILike: "ILIKE"})


def escape_like(pattern: str, escape: str) -> str:
    """Give a LIKE pattern with backslash as its escape; ValueError if a sign other than `%`, `_` is escaped."""
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
    """Tell whether Spark turns a pattern into a plain comparison."""
    return _SIMPLE_LIKE.fullmatch(pattern) is not None


def check_regex(pattern: str) -> None:
    """Raise ValueError unless RE2 and Python both take a regular expression, with the same meaning."""
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
        """Count one more part; ValueError beyond the bound."""
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


def _not(context: Context, node: exp.Not) -> Term:
    return Term(call("NOT", context.condition(node.this).expression), Kind.BOOLEAN)


def _connect(context: Context, node: exp.And | exp.Or) -> Term:
    """Make one call of a chain of AND or of OR, however long it is."""
    parts: list[exp.Expr] = []
    rest: exp.Expr = node
    while type(rest) is type(node):
        parts.append(rest.expression)
        rest = rest.this
    parts.append(rest)
    conditions = [context.condition(part).expression for part in reversed(parts)]
    return Term(call("AND" if isinstance(node, exp.And) else "OR", *conditions), Kind.BOOLEAN)


def _compare(context: Context, node: exp.Binary) -> Term:
    left, right = _comparable(context, node, [node.this, node.expression])
    return Term(call(_COMPARISONS[type(node)], left.expression, right.expression), Kind.BOOLEAN)


def _distinct(context: Context, node: exp.NullSafeNEQ) -> Term:
    left, right = context.alike(node, [node.this, node.expression])
    return Term(call("NOT", call("<=>", left.expression, right.expression)), Kind.BOOLEAN)


def _between(context: Context, node: exp.Between) -> Term:
    terms = _comparable(context, node, [node.this, node.args["low"], node.args["high"]])
    return Term(call("BETWEEN", *(term.expression for term in terms)), Kind.BOOLEAN)


def _in(context: Context, node: exp.In) -> Term:
    if not node.expressions:
        return context.refuse(node, "has no list of literals after IN")
    _, *items = terms = context.alike(node, [node.this, *node.expressions])
    if any(term.kind is Kind.UNKNOWN for term in terms):
        return REFUSED_TERM
    for item, part in zip(items, node.expressions, strict=True):
        if not item.constant:
            context.refuse(part, "is no literal; after IN stand literals other than NULL")
    return Term(call("IN", *(term.expression for term in terms)), Kind.BOOLEAN)


def _is(context: Context, node: exp.Is) -> Term:
    if isinstance(node.expression, exp.Null):
        return Term(call("IS NULL", context.term(node.this).expression), Kind.BOOLEAN)
    if isinstance(node.expression, exp.Boolean):
        name = "IS TRUE" if node.expression.this else "IS FALSE"
        return Term(call(name, context.condition(node.this).expression), Kind.BOOLEAN)
    return context.refuse(node, "is not taken; after IS stands NULL, TRUE or FALSE")


def _like(context: Context, node: exp.Like | exp.ILike, sign: str = "\\") -> Term:
    """Leave simple patterns to Spark; for others use our own function, as Spark's takes long."""
    name = _LIKES[type(node)]

    def match(value: Expression, pattern: str) -> Expression:
        written = escape_like(pattern, sign)
        escaped = Literal(written, Kind.TEXT)
        if is_simple_like(written):
            return call(name, value, escaped)
        if name == "ILIKE":
            return call("messagestore.like", call("lower", value), call("lower", escaped))
        return call("messagestore.like", value, escaped)

    term = _match(context, node, name, match)
    negated = node.args.get("negate") and term.kind is Kind.BOOLEAN
    return Term(call("NOT", term.expression), Kind.BOOLEAN) if negated else term


def _rlike(context: Context, node: exp.RegexpLike) -> Term:
    def match(value: Expression, pattern: str) -> Expression:
        check_regex(pattern)
        return call("messagestore.matches", value, Literal(pattern, Kind.TEXT))

    return _match(context, node, "RLIKE", match)


def _escape(context: Context, node: exp.Escape) -> Term:
    like, sign = node.this, str(node.expression.this) if _is_text(node.expression) else ""
    if type(like) not in _LIKES or len(sign) != 1 or sign in "%_":
        return context.refuse(node, "is not taken; ESCAPE and one character stand after LIKE 'pattern'")
    return _like(context, like, sign)


RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        exp.Not: Rule(_not),
        exp.And: Rule(_connect),
        exp.Or: Rule(_connect),
        **dict.fromkeys(_COMPARISONS, Rule(_compare)),
        exp.NullSafeNEQ: Rule(_distinct),
        exp.Between: Rule(_between, frozenset({"this", "low", "high"})),
        exp.In: Rule(_in, frozenset({"this", "expressions"})),
        exp.Is: Rule(_is),
        **dict.fromkeys(_LIKES, Rule(_like, frozenset({"this", "expression", "negate"}))),
        exp.RegexpLike: Rule(_rlike),
        exp.Escape: Rule(_escape),
    }
)


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


def _comparable(context: Context, node: exp.Expr, parts: list[exp.Expr]) -> list[Term]:
    if not isinstance(node, exp.NullSafeEQ) and any(isinstance(part, exp.Null) for part in parts):
        context.refuse(node, "compares with NULL, which is never true; write IS NULL or IS NOT NULL")
    return context.alike(node, parts)


def _match(context: Context, node: exp.Expr, word: str, match: Callable[[Expression, str], Expression]) -> Term:
    value = context.text(node.this)
    if not _is_text(node.expression):
        return context.refuse(node, f"is not taken; after {word} stands one text literal")
    try:
        return Term(match(value.expression, str(node.expression.this)), Kind.BOOLEAN)
    except ValueError as error:
        return context.refuse(node.expression, str(error))


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)
