"""Rules for what is true or false."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlglot import exp

from messagestore_jobs.predicate.columns import Kind
from messagestore_jobs.predicate.context import REFUSED_TERM, Context, Rule, Term
from messagestore_jobs.predicate.expression import Expression, Literal, call
from messagestore_jobs.predicate.patterns import check_regex, escape_like, is_simple_like

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


def _not(context: Context, node: exp.Not) -> Term:
    return Term(call("NOT", context.condition(node.this).expression), Kind.BOOLEAN)


def _connect(context: Context, node: exp.And | exp.Or) -> Term:
    """Make a chain of AND or of OR; however long it is, it is one level deep."""
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


def _comparable(context: Context, node: exp.Expr, parts: list[exp.Expr]) -> list[Term]:
    if not isinstance(node, exp.NullSafeEQ) and any(isinstance(part, exp.Null) for part in parts):
        context.refuse(node, "compares with NULL, which is never true; write IS NULL or IS NOT NULL")
    return context.alike(node, parts)


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
    """Leave to Spark what it makes a comparison of; on the rest it takes long, and a function of ours does not."""
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
