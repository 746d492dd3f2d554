"""The rule for function calls: those in FUNCTIONS, and those that need a rule of their own."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from sqlglot import exp

from messagestore_core.predicate.columns import Kind
from messagestore_core.predicate.context import Context, Rule, Term, common_kind
from messagestore_core.predicate.expression import Literal, call
from messagestore_core.predicate.functions import FUNCTIONS, REFUSED, Parameter
from messagestore_core.predicate.literals import check_path
from messagestore_core.predicate.values import ARITHMETIC, calculate

_Call = Callable[[Context, exp.Expr, str, Sequence[exp.Expr]], Term]
_MOST_ARGUMENTS = 100
_ARITY = "has too many or too few arguments"


def _call(context: Context, node: exp.Anonymous) -> Term:
    name = node.name.lower()
    parts: Sequence[exp.Expr] = node.expressions
    if special := _SPECIAL.get(name):
        write, least, most = special
        return write(context, node, name, parts) if least <= len(parts) <= most else context.refuse(node, _ARITY)
    function = FUNCTIONS.get(name)
    if function is None:
        taken = ", ".join(sorted({*FUNCTIONS, *_SPECIAL}))
        return context.refuse(node, REFUSED.get(name) or f"is no function taken here; those are {taken}")
    parameters = function.parameters
    if function.repeats:
        parameters += parameters[-1:] * (len(parts) - len(parameters))
    if not len(parameters) - function.optional <= len(parts) <= len(parameters):
        return context.refuse(node, _ARITY)
    arguments = [_argument(context, *pair) for pair in zip(parts, parameters, strict=False)]
    return Term(call(name, *(term.expression for term in arguments)), function.gives)


def _argument(context: Context, part: exp.Expr, parameter: Parameter) -> Term:
    term = context.become(context.term(part), parameter.kinds, part)
    if parameter.column and not isinstance(part, exp.Column):
        return context.refuse(part, "must be a column here: a computed time may be out of range")
    if parameter.choices is None or term.kind is Kind.UNKNOWN:
        return term
    literal = term.expression
    value = str(literal.value).upper() if isinstance(literal, Literal) else None
    if value not in parameter.choices:
        choices = [f"'{choice}'" if Kind.TEXT in parameter.kinds else choice for choice in parameter.choices]
        return context.refuse(part, f"must be a literal, one of {', '.join(choices)}")
    return Term(Literal(value, term.kind), term.kind, constant=True)


def _arithmetic(context: Context, node: exp.Expr, name: str, parts: Sequence[exp.Expr]) -> Term:
    return calculate(context, name, parts, fallible=False)


def _alike(context: Context, node: exp.Expr, name: str, parts: Sequence[exp.Expr]) -> Term:
    terms = context.alike(node, parts)
    return Term(call(name, *(term.expression for term in terms)), common_kind(terms))


def _if(context: Context, node: exp.Expr, name: str, parts: Sequence[exp.Expr]) -> Term:
    test = context.condition(parts[0])
    yes, no = values = context.alike(node, parts[1:])
    return Term(call("if", test.expression, yes.expression, no.expression), common_kind(values))


def _size(context: Context, node: exp.Expr, name: str, parts: Sequence[exp.Expr]) -> Term:
    """Use array_size() in place of Spark's size(), which gives -1 for NULL outside ANSI mode."""
    term = context.become(context.term(parts[0]), (Kind.MAP, Kind.LIST), parts[0])
    values = call("map_keys", term.expression) if term.kind is Kind.MAP else term.expression
    return Term(call("array_size", values), Kind.NUMBER)


def _to_time(context: Context, node: exp.Expr, name: str, parts: Sequence[exp.Expr]) -> Term:
    kind = Kind.DATE if name == "to_date" else Kind.TIMESTAMP
    return context.become(context.term(parts[0]), (kind,), parts[0])


def _json(context: Context, node: exp.Expr, name: str, parts: Sequence[exp.Expr]) -> Term:
    document, path = parts
    column = document.name.lower() if isinstance(document, exp.Column) and not document.table else ""
    if column not in context.columns.documents:
        readable = ", ".join(sorted(context.columns.documents))
        return context.refuse(document, f"is no JSON column {context.columns.place}; json() reads {readable}")
    if not (isinstance(path, exp.Literal) and path.is_string):
        return context.refuse(path, "must be a path in quotes, such as '$.name'")
    try:
        check_path(str(path.this))
    except ValueError as error:
        return context.refuse(path, str(error))
    source = context.term(document).expression
    given, fits = call("IS NOT NULL", source), call("messagestore.is_json", source)
    context.failures[call("AND", given, call("NOT", fits))] = None
    return Term(call("messagestore.json_text", source, Literal(str(path.this), Kind.TEXT)), Kind.TEXT)


_SPECIAL: Mapping[str, tuple[_Call, int, int]] = MappingProxyType(
    {
        "json": (_json, 2, 2),
        "if": (_if, 3, 3),
        "coalesce": (_alike, 1, _MOST_ARGUMENTS),
        **dict.fromkeys(("greatest", "least"), (_alike, 2, _MOST_ARGUMENTS)),
        **dict.fromkeys(("ifnull", "nvl", "nullif"), (_alike, 2, 2)),
        **dict.fromkeys(ARITHMETIC.values(), (_arithmetic, 2, 2)),
        "size": (_size, 1, 1),
        **dict.fromkeys(("to_date", "to_timestamp"), (_to_time, 1, 1)),
    }
)

RULES: Mapping[type[exp.Expr], Rule] = MappingProxyType(
    {exp.Anonymous: Rule(_call, frozenset({"this", "expressions"}))}
)
