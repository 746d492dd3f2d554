"""State that rules share while they check one predicate, and the error for its author."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from messagestore_core.predicate.columns import ColumnSet, Kind
from messagestore_core.predicate.expression import NULL, Cast, Expression, Literal, call
from messagestore_core.predicate.literals import read_date, read_timestamp
from messagestore_core.text import one_line

ALLOWED = (
    "allowed are literals, the table's columns, json(payload, '$.path'), comparisons, AND, OR, NOT, "
    "arithmetic, IN with literals, BETWEEN, LIKE, RLIKE, IS NULL, CASE, CAST and a list of pure functions"
)

_SHOWN = 80
MAX_DEPTH = 64
TIMES = (Kind.DATE, Kind.TIMESTAMP)
ANY = (Kind.NULL, Kind.UNKNOWN)
# The types that text is cast to where another kind is needed: whole numbers of up to 20 digits stay exact.
READ_FROM_TEXT = {
    Kind.NUMBER: "DECIMAL(38, 18)",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
}

_MAX_REFUSALS = 10
_COMPARABLE = frozenset({*READ_FROM_TEXT, Kind.TEXT, Kind.BINARY, Kind.INTERVAL, *ANY})
_SUBQUERY = "is a subquery; a predicate sees one message and no table"
_QUALIFIED = "is a qualified name; only plain functions, source.<field> and headers.<name> are taken"
_REFUSED_ARGUMENTS = {"query": _SUBQUERY, "db": _QUALIFIED}
_REFUSED_NODES: tuple[tuple[tuple[type[exp.Expr], ...], str], ...] = (
    ((exp.Query, exp.Exists, exp.Any, exp.All, exp.Table, exp.Values), _SUBQUERY),
    ((exp.Window, exp.Filter, exp.WithinGroup, exp.Distinct), "is part of an aggregate or window"),
    ((exp.Star,), "is no value; name the column"),
    ((exp.Placeholder, exp.Parameter), "is a parameter; write the value itself"),
    ((exp.Dot,), _QUALIFIED),
    ((exp.IntDiv,), "is not taken; write floor(a / b)"),
    ((exp.Tuple,), "is a list; a list stands after IN only"),
)


def shorten(text: str) -> str:
    """Give `text` on one line, short enough for a message."""
    return one_line(text, _SHOWN)


@dataclass(frozen=True)
class Refusal:
    """A part of a predicate that is not allowed: its text, its first character (counted from 1), and why."""

    part: str
    position: int | None
    why: str

    def __str__(self) -> str:
        place = "" if self.position is None else f" at character {self.position}"
        return f"`{self.part}`{place}: {self.why}"


class PredicateError(ValueError):
    """A predicate is refused; `refusals` has every part that is not allowed."""

    def __init__(self, refusals: Iterable[Refusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__(f"{'; '.join(map(str, self.refusals))} ({ALLOWED})")

    @classmethod
    def of(cls, part: str, why: str, position: int | None = None) -> "PredicateError":
        """Make the error for a single refusal."""
        return cls([Refusal(shorten(part), position, why)])


@dataclass(frozen=True)
class Term:
    """A checked expression. `text` is the value if it is a string literal; `constant`: whether it is a literal."""

    expression: Expression
    kind: Kind
    text: str | None = None
    constant: bool = False


REFUSED_TERM = Term(NULL, Kind.UNKNOWN)


@dataclass(frozen=True)
class Rule:
    """How one type of node is checked and turned into a term, and which arguments it may have."""

    apply: "Callable[[Context, Any], Term]"
    arguments: frozenset[str] = frozenset({"this", "expression"})


class Context:
    """One walk over a tree: collects refusals, possible failures and the columns read."""

    def __init__(self, columns: ColumnSet, rules: Mapping[type[exp.Expr], Rule]) -> None:
        self.columns = columns
        self.failures: dict[Expression, None] = {}
        self.columns_read: set[str] = set()
        self._rules = rules
        self._depth = 0
        self._refusals: list[Refusal] = []

    @property
    def refusals(self) -> list[Refusal]:
        """The refusals so far, at most as many as a message should have."""
        return list(dict.fromkeys(self._refusals))

    def refuse(self, node: exp.Expr, why: str) -> Term:
        """Refuse `node`; the returned term causes no further refusals."""
        if len(self._refusals) >= _MAX_REFUSALS:
            return REFUSED_TERM
        try:
            text = node.sql(dialect="spark", normalize_functions=False)
        except Exception:
            # sqlglot can't write every tree that it reads from a broken text.
            text = type(node).__name__
        self._refusals.append(Refusal(shorten(text), _position(node), why))
        return REFUSED_TERM

    def term(self, node: exp.Expr) -> Term:
        """Check `node` by the rule of its exact type; refuse it if there is no rule."""
        rule = self._rules.get(type(node))
        if rule is None:
            return self.refuse(node, _why_not(node))
        unknown = [name for name, value in node.args.items() if value and name not in rule.arguments]
        if unknown:
            why = _REFUSED_ARGUMENTS.get(unknown[0], f"has a part that is not taken: {unknown[0]}")
            return self.refuse(node, why)
        if self._depth >= MAX_DEPTH:
            return self.refuse(node, f"is nested too deeply; at most {MAX_DEPTH} levels are taken")
        self._depth += 1
        try:
            return rule.apply(self, node)
        finally:
            self._depth -= 1

    def condition(self, node: exp.Expr, why: str = "must be a condition") -> Term:
        """Check `node`, and that it is a condition."""
        term = self.term(node)
        if term.kind in (Kind.BOOLEAN, Kind.UNKNOWN):
            return term
        return self.refuse(node, f"{why}, this is {term.kind.value}")

    def text(self, node: exp.Expr) -> Term:
        """Check `node`, and that it is text."""
        return self.become(self.term(node), (Kind.TEXT,), node)

    def constant(self, node: exp.Expr, kind: Kind, read: Callable[[str], str], value: str) -> Term:
        """Make a literal, or refuse it with the error of `read`."""
        try:
            return Term(Literal(read(value), kind), kind, constant=True)
        except ValueError as error:
            return self.refuse(node, str(error))

    def fallible(self, operands: Sequence[Term], expression: Expression, kind: Kind) -> Term:
        """Note a possible failure: `expression` is NULL and no operand is."""
        given = [call("IS NOT NULL", term.expression) for term in operands if not term.constant]
        self.failures[call("AND", *given, call("IS NULL", expression))] = None
        return Term(expression, kind)

    def alike(self, node: exp.Expr, parts: Sequence[exp.Expr]) -> list[Term]:
        """Bring `parts` to one kind, so that Spark doesn't convert them implicitly."""
        terms = [self.term(part) for part in parts]
        wanted = common_kind(terms)
        if wanted not in _COMPARABLE:
            self.refuse(node, f"compares {wanted.value}, which cannot be done; name one value of it")
            return [REFUSED_TERM] * len(terms)
        return [self.become(term, (wanted,), part) for term, part in zip(terms, parts, strict=True)]

    def become(self, term: Term, kinds: tuple[Kind, ...], node: exp.Expr) -> Term:
        """Give `term` as one of `kinds`. Text is converted; anything else the user must cast."""
        wanted = kinds[0]
        if term.kind in (*kinds, *ANY) or wanted in ANY:
            return term
        if term.kind in TIMES and wanted in TIMES:
            return self._retime(term, wanted)
        if term.text is not None and wanted in TIMES:
            return self.constant(node, wanted, read_date if wanted is Kind.DATE else read_timestamp, term.text)
        if term.text is not None and wanted in READ_FROM_TEXT:
            return self.refuse(node, f"is text, expected is {wanted.value}; write it without quotes")
        if term.kind is Kind.TEXT and wanted in READ_FROM_TEXT:
            return self.fallible([term], Cast(term.expression, READ_FROM_TEXT[wanted]), wanted)
        castable = {term.kind, wanted} <= {*READ_FROM_TEXT, Kind.BINARY, Kind.TEXT} and Kind.TEXT in (wanted, term.kind)
        hint = "; write CAST(… AS STRING) around what is no text" if castable else ""
        return self.refuse(node, f"is {term.kind.value}, expected is {wanted.value}{hint}")

    def _retime(self, term: Term, wanted: Kind) -> Term:
        """Turn a date into a time or a time into a date; Spark's own conversion throws on far dates."""
        cast = Cast(term.expression, READ_FROM_TEXT[wanted])
        if wanted is Kind.DATE or term.constant:
            return Term(cast, wanted, constant=term.constant)
        return self.fallible([term], cast, wanted)


def common_kind(terms: Sequence[Term]) -> Kind:
    """Give the kind for all `terms`: that of the first that is neither text nor NULL, otherwise text."""
    kinds = [term.kind for term in terms]
    if Kind.UNKNOWN in kinds:
        return Kind.UNKNOWN
    if Kind.DATE in kinds and Kind.TIMESTAMP in kinds:
        return Kind.TIMESTAMP
    fallback = Kind.TEXT if Kind.TEXT in kinds else Kind.NULL
    return next((kind for kind in kinds if kind not in (Kind.TEXT, Kind.NULL)), fallback)


def _position(node: exp.Expr) -> int | None:
    """Give the first character of `node`, or else that of its parent."""
    for holder in (node, node.parent):
        starts = [part.meta["start"] for part in holder.walk() if "start" in part.meta] if holder else []
        if starts:
            return int(min(starts)) + 1
    return None


def _why_not(node: exp.Expr) -> str:
    return next((why for types, why in _REFUSED_NODES if isinstance(node, types)), "is not taken in a predicate")
