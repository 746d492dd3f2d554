"""Rules for what is true or false."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from sqlglot import exp

from messagestore_jobs.predicate.columns import Kind
from messagestore_jobs.predicate.context import REFUSED_TERM, Context, Rule, Term
from messagestore_jobs.predicate.literals import write_string
from messagestore_jobs.predicate.patterns import check_like, check_regex

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
    return Term(f"(NOT {context.condition(node.this).sql})", Kind.BOOLEAN)


def _connect(context: Context, node: exp.And | exp.Or) -> Term:
    """Write a chain of AND or of OR; however long it is, it is one level deep."""
    parts: list[exp.Expr] = []
    rest: exp.Expr = node
    while type(rest) is type(node):
        parts.append(rest.expression)
        rest = rest.this
    parts.append(rest)
    word = " AND " if isinstance(node, exp.And) else " OR "
    return Term(f"({word.join(context.condition(part).sql for part in reversed(parts))})", Kind.BOOLEAN)


def _compare(context: Context, node: exp.Binary) -> Term:
    left, right = _comparable(context, node, [node.this, node.expression])
    return Term(f"({left.sql} {_COMPARISONS[type(node)]} {right.sql})", Kind.BOOLEAN)


def _distinct(context: Context, node: exp.NullSafeNEQ) -> Term:
    left, right = context.alike(node, [node.this, node.expression])
    return Term(f"(NOT ({left.sql} <=> {right.sql}))", Kind.BOOLEAN)


def _between(context: Context, node: exp.Between) -> Term:
    value, low, high = _comparable(context, node, [node.this, node.args["low"], node.args["high"]])
    return Term(f"({value.sql} BETWEEN {low.sql} AND {high.sql})", Kind.BOOLEAN)


def _comparable(context: Context, node: exp.Expr, parts: list[exp.Expr]) -> list[Term]:
    if not isinstance(node, exp.NullSafeEQ) and any(isinstance(part, exp.Null) for part in parts):
        context.refuse(node, "compares with NULL, which is never true; write IS NULL or IS NOT NULL")
    return context.alike(node, parts)


def _in(context: Context, node: exp.In) -> Term:
    if not node.expressions:
        return context.refuse(node, "has no list of literals after IN")
    value, *items = terms = context.alike(node, [node.this, *node.expressions])
    if any(term.kind is Kind.UNKNOWN for term in terms):
        return REFUSED_TERM
    for item, part in zip(items, node.expressions, strict=True):
        if not item.constant:
            context.refuse(part, "is no literal; after IN stand literals other than NULL")
    return Term(f"({value.sql} IN ({', '.join(item.sql for item in items)}))", Kind.BOOLEAN)


def _is(context: Context, node: exp.Is) -> Term:
    if isinstance(node.expression, exp.Null):
        return Term(f"({context.term(node.this).sql} IS NULL)", Kind.BOOLEAN)
    if isinstance(node.expression, exp.Boolean):
        word = "TRUE" if node.expression.this else "FALSE"
        return Term(f"({context.condition(node.this).sql} IS {word})", Kind.BOOLEAN)
    return context.refuse(node, "is not taken; after IS stands NULL, TRUE or FALSE")


def _like(context: Context, node: exp.Like | exp.ILike) -> Term:
    return _match(context, node, _LIKES[type(node)], lambda pattern: check_like(pattern, "\\"))


def _rlike(context: Context, node: exp.RegexpLike) -> Term:
    return _match(context, node, "RLIKE", check_regex)


def _escape(context: Context, node: exp.Escape) -> Term:
    like, sign = node.this, str(node.expression.this) if _is_text(node.expression) else ""
    if type(like) not in _LIKES or len(sign) != 1 or sign in "%_":
        return context.refuse(node, "is not taken; ESCAPE and one character stand after LIKE 'pattern'")
    match = _match(context, like, _LIKES[type(like)], lambda pattern: check_like(pattern, sign))
    return Term(f"{match.sql.removesuffix(')')} ESCAPE {write_string(sign)})", match.kind)


def _match(context: Context, node: exp.Expr, word: str, check: Callable[[str], None]) -> Term:
    value = context.text(node.this)
    if not _is_text(node.expression):
        return context.refuse(node, f"is not taken; after {word} stands one text literal")
    pattern = str(node.expression.this)
    try:
        check(pattern)
    except ValueError as error:
        return context.refuse(node.expression, str(error))
    return Term(f"({value.sql} {word} {write_string(pattern)})", Kind.BOOLEAN)


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
        **dict.fromkeys(_LIKES, Rule(_like)),
        exp.RegexpLike: Rule(_rlike),
        exp.Escape: Rule(_escape),
    }
)
