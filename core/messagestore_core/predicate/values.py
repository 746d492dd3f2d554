"""Rules for computed values: CASE, ||, arithmetic and CAST.

Arithmetic becomes Spark's try_ functions: where `+` would wrap or throw, they give NULL, which counts as a failure.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlglot import exp

from messagestore_core.predicate.columns import Kind
from messagestore_core.predicate.context import REFUSED_TERM, TIMES, Context, Rule, Term, common_kind
from messagestore_core.predicate.expression import Cast, Literal, call
from messagestore_core.predicate.literals import read_number

ARITHMETIC: Mapping[type[exp.Expr], str] = MappingProxyType(
    {
        exp.Add: "try_add",
        exp.Sub: "try_subtract",
        exp.Mul: "try_multiply",
        exp.Div: "try_divide",
        exp.Mod: "try_mod",
    }
)
_CASTS: Mapping[object, tuple[str, Kind]] = MappingProxyType(
    {
        exp.DType.TEXT: ("STRING", Kind.TEXT),
        exp.DType.BOOLEAN: ("BOOLEAN", Kind.BOOLEAN),
        exp.DType.TINYINT: ("TINYINT", Kind.NUMBER),
        exp.DType.SMALLINT: ("SMALLINT", Kind.NUMBER),
        exp.DType.INT: ("INT", Kind.NUMBER),
        exp.DType.BIGINT: ("BIGINT", Kind.NUMBER),
        exp.DType.FLOAT: ("FLOAT", Kind.NUMBER),
        exp.DType.DOUBLE: ("DOUBLE", Kind.NUMBER),
        exp.DType.DECIMAL: ("DECIMAL", Kind.NUMBER),
        exp.DType.DATE: ("DATE", Kind.DATE),
        exp.DType.TIMESTAMPTZ: ("TIMESTAMP", Kind.TIMESTAMP),
        exp.DType.BINARY: ("BINARY", Kind.BINARY),
    }
)
_CASTABLE: Mapping[Kind, frozenset[Kind]] = MappingProxyType(
    {
        Kind.TEXT: frozenset(kind for _, kind in _CASTS.values()),
        Kind.NULL: frozenset(kind for _, kind in _CASTS.values()),
        Kind.NUMBER: frozenset({Kind.TEXT, Kind.BOOLEAN, Kind.NUMBER, Kind.TIMESTAMP}),
        Kind.BOOLEAN: frozenset({Kind.TEXT, Kind.BOOLEAN, Kind.NUMBER}),
        Kind.DATE: frozenset({Kind.TEXT, Kind.DATE, Kind.TIMESTAMP}),
        Kind.TIMESTAMP: frozenset({Kind.TEXT, Kind.DATE, Kind.TIMESTAMP, Kind.NUMBER}),
        Kind.BINARY: frozenset({Kind.TEXT, Kind.BINARY}),
    }
)
_MAX_PRECISION = 38
_SIZE = re.compile(r"\d{1,2}", re.ASCII)


def calculate(context: Context, name: str, parts: Sequence[exp.Expr], *, fallible: bool) -> Term:
    """Make one arithmetic function over two numbers, or over times and intervals."""
    terms = [context.term(part) for part in parts]
    kind = _moved(name, terms[0].kind, terms[1].kind)
    wanted = Kind.NUMBER if kind is Kind.NUMBER else Kind.TIMESTAMP
    operands = [
        term if term.kind is Kind.INTERVAL and kind is not Kind.NUMBER else context.become(term, (wanted,), part)
        for term, part in zip(terms, parts, strict=True)
    ]
    result = call(name, *(operand.expression for operand in operands))
    return context.fallible(operands, result, kind) if fallible else Term(result, kind)


def _moved(name: str, left: Kind, right: Kind) -> Kind:
    """Give the kind of a sum or difference of times and intervals; for anything else a number."""
    if name == "try_subtract" and left in TIMES and right in TIMES:
        return Kind.INTERVAL
    if name in ("try_add", "try_subtract") and right is Kind.INTERVAL and left in (*TIMES, Kind.INTERVAL):
        return Kind.TIMESTAMP if left in TIMES else Kind.INTERVAL
    if name == "try_add" and left is Kind.INTERVAL and right in TIMES:
        return Kind.TIMESTAMP
    return Kind.NUMBER


def _arithmetic(context: Context, node: exp.Binary) -> Term:
    return calculate(context, ARITHMETIC[type(node)], [node.this, node.expression], fallible=True)


def _negate(context: Context, node: exp.Neg) -> Term:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return context.constant(node, Kind.NUMBER, read_number, f"-{node.this.this}")
    term = context.become(context.term(node.this), (Kind.NUMBER,), node.this)
    return context.fallible([term], call("try_subtract", Literal("0", Kind.NUMBER), term.expression), Kind.NUMBER)


def _concat(context: Context, node: exp.DPipe) -> Term:
    parts = (context.text(node.this), context.text(node.expression))
    return Term(call("concat", *(part.expression for part in parts)), Kind.TEXT)


def _case(context: Context, node: exp.Case) -> Term:
    ifs: list[exp.If] = node.args["ifs"]
    subject, default = node.args.get("this"), node.args.get("default")
    if subject is None:
        head, tests = call("CASE"), [context.condition(branch.this) for branch in ifs]
    else:
        first, *tests = context.alike(node, [subject, *(branch.this for branch in ifs)])
        head = call("CASE OF", first.expression)
    values = context.alike(node, [*(branch.args["true"] for branch in ifs), default or exp.Null()])
    *branches, otherwise = values
    whens = [term.expression for branch in zip(tests, branches, strict=True) for term in branch]
    return Term(call(head.name, *head.parts, *whens, otherwise.expression), common_kind(values))


def _cast(context: Context, node: exp.Cast | exp.TryCast) -> Term:
    term = context.term(node.this)
    name, kind = _type(context, node.args["to"])
    if Kind.UNKNOWN in (term.kind, kind):
        return REFUSED_TERM
    if kind not in _CASTABLE.get(term.kind, ()):
        return context.refuse(node, f"cannot make {kind.value} of {term.kind.value}")
    if kind in TIMES and (term.text is not None or term.kind in TIMES) and isinstance(node, exp.Cast):
        return context.become(term, (kind,), node)
    cast = Cast(term.expression, name)
    if isinstance(node, exp.TryCast) or _never_fails(term.kind, kind):
        return Term(cast, kind)
    return context.fallible([term], cast, kind)


def _never_fails(given: Kind, wanted: Kind) -> bool:
    if given is wanted:
        return given is not Kind.NUMBER
    return wanted in (Kind.TEXT, Kind.BINARY) and given is not Kind.BINARY


def _type(context: Context, node: exp.DataType) -> tuple[str, Kind]:
    name, kind = _CASTS.get(node.this, ("", Kind.UNKNOWN))
    sizes = [str(size.this) for size in node.expressions]
    extra = {key for key, value in node.args.items() if value} - {"this", "expressions"}
    if name == "DECIMAL":
        precision, scale = (sizes or ["10"])[0], (sizes[1:] or ["0"])[0]
        fits = _SIZE.fullmatch(precision) and _SIZE.fullmatch(scale) and int(scale) <= int(precision)
        if fits and 0 < int(precision) <= _MAX_PRECISION:
            name, sizes = f"DECIMAL({int(precision)}, {int(scale)})", sizes[2:]
    if kind is Kind.UNKNOWN or sizes or extra:
        types = ", ".join(name for name, _ in _CASTS.values())
        context.refuse(node, f"is no type to cast to; those are {types}")
        return "", Kind.UNKNOWN
    return name, kind


RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {
        **dict.fromkeys(ARITHMETIC, Rule(_arithmetic, frozenset({"this", "expression", "typed", "safe"}))),
        exp.Neg: Rule(_negate),
        exp.DPipe: Rule(_concat, frozenset({"this", "expression", "safe"})),
        exp.Case: Rule(_case, frozenset({"this", "ifs", "default"})),
        exp.Cast: Rule(_cast, frozenset({"this", "to"})),
        exp.TryCast: Rule(_cast, frozenset({"this", "to", "safe"})),
    }
)
