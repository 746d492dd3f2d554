"""Rules for literals and columns."""

from collections.abc import Mapping
from types import MappingProxyType

from sqlglot import exp

from messagestore_core.predicate.columns import SOURCE_FIELDS, Kind
from messagestore_core.predicate.context import REFUSED_TERM, Context, Rule, Term
from messagestore_core.predicate.expression import NULL, Literal, Read, call
from messagestore_core.predicate.functions import REFUSED
from messagestore_core.predicate.literals import read_bytes, read_interval, read_number


def _literal(context: Context, node: exp.Literal) -> Term:
    value = str(node.this)
    if node.is_string:
        return Term(Literal(value, Kind.TEXT), Kind.TEXT, text=value, constant=True)
    return context.constant(node, Kind.NUMBER, read_number, value)


def _boolean(context: Context, node: exp.Boolean) -> Term:
    return Term(Literal(bool(node.this), Kind.BOOLEAN), Kind.BOOLEAN, constant=True)


def _null(context: Context, node: exp.Null) -> Term:
    return Term(NULL, Kind.NULL)


def _bytes(context: Context, node: exp.HexString) -> Term:
    return context.constant(node, Kind.BINARY, read_bytes, str(node.this))


def _interval(context: Context, node: exp.Interval) -> Term:
    amount = str(node.this.this) if isinstance(node.this, exp.Literal) else ""
    return context.constant(node, Kind.INTERVAL, read_interval, f"{amount} {node.args.get('unit')}")


def _column(context: Context, node: exp.Column) -> Term:
    if node.table:
        return _field(context, node, node.table.lower())
    name = node.name.lower()
    kind = context.columns.kinds.get(name)
    if kind is None:
        return context.refuse(node, REFUSED.get(name) or context.columns.explain(node.name))
    context.columns_read.add(name)
    return Term(Read(name), kind)


def _field(context: Context, node: exp.Column, owner: str) -> Term:
    kind = context.columns.kinds.get(owner)
    field = node.name.lower()
    if kind not in (Kind.MAP, Kind.STRUCT):
        return context.refuse(node, "names a table, a path or a field that is none; only columns are taken")
    if kind is Kind.STRUCT and field not in SOURCE_FIELDS:
        return context.refuse(node, f"has no such field; {owner} has {', '.join(SOURCE_FIELDS)}")
    context.columns_read.add(owner)
    if kind is Kind.MAP:
        return Term(call("[]", Read(owner), Literal(node.name, Kind.TEXT)), Kind.TEXT)
    return Term(Read(owner, field), SOURCE_FIELDS[field])


def _bracket(context: Context, node: exp.Bracket) -> Term:
    terms = [context.term(part) for part in (node.this, *node.expressions)]
    kinds = [term.kind for term in terms]
    if Kind.UNKNOWN in kinds:
        return REFUSED_TERM
    if kinds != [Kind.MAP, Kind.TEXT]:
        return context.refuse(node, "is not taken; [ ] reads a map by a text, as in headers['x']")
    return Term(call("[]", *(term.expression for term in terms)), Kind.TEXT)


def _paren(context: Context, node: exp.Paren) -> Term:
    return context.term(node.this)


RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        exp.Literal: Rule(_literal, frozenset({"this", "is_string"})),
        exp.Boolean: Rule(_boolean),
        exp.Null: Rule(_null),
        exp.HexString: Rule(_bytes),
        exp.Interval: Rule(_interval, frozenset({"this", "unit"})),
        exp.Column: Rule(_column, frozenset({"this", "table"})),
        exp.Bracket: Rule(_bracket, frozenset({"this", "expressions"})),
        exp.Paren: Rule(_paren),
    }
)
