"""The checks that the parser makes on each part: kinds, conversions and bounds."""

from collections.abc import Callable
from dataclasses import dataclass

from messagestore_core.predicate.columns import SOURCE_FIELDS, ColumnSet, Kind
from messagestore_core.predicate.expression import FALSE, Expression, Literal, Read, call, reads
from messagestore_core.predicate.functions import FUNCTIONS, NAMES, REFUSED
from messagestore_core.predicate.literals import check_path, read_timestamp
from messagestore_core.predicate.refusal import PredicateError, Refusal, refusal
from messagestore_core.predicate.tokens import Token

MAX_DEPTH = 64
TOO_DEEP = f"is nested too deeply; at most {MAX_DEPTH} levels are taken"
_MAX_REFUSALS = 10
# How text is converted where another kind is needed: whole numbers of up to 20 digits stay exact.
_FROM_TEXT = {Kind.NUMBER: "decimal", Kind.BOOLEAN: "bool", Kind.TIMESTAMP: "timestamp"}
_COMPARABLE = frozenset({*_FROM_TEXT, Kind.TEXT, Kind.BINARY, Kind.INTERVAL, Kind.REFUSED})


@dataclass(frozen=True)
class Term:
    """A checked part of a predicate, and where it stands."""

    expression: Expression
    kind: Kind
    at: slice
    depth: int = 1

    @property
    def constant(self) -> bool:
        """Whether it is a literal."""
        return isinstance(self.expression, Literal)

    @property
    def text(self) -> str | None:
        """The value of a literal text."""
        return str(self.expression.value) if isinstance(self.expression, Literal) and self.kind is Kind.TEXT else None


class Checks:
    """The checks of one predicate: collects refusals, possible failures and the columns read."""

    def __init__(self, text: str, columns: ColumnSet) -> None:
        self.columns = columns
        self.failures: list[Expression] = []
        self.columns_read: set[str] = set()
        self.refusals: dict[Refusal, None] = {}
        self._text = text

    def refuse(self, at: slice, why: str) -> Term:
        """Refuse a part; the returned term causes no further refusals."""
        if len(self.refusals) < _MAX_REFUSALS:
            self.refusals[refusal(self._text, at, why)] = None
        return Term(FALSE, Kind.REFUSED, at)

    def stop(self, at: slice, why: str) -> PredicateError:
        """The error of a part after which nothing more can be read."""
        self.refuse(at, why)
        return PredicateError(self.refusals)

    def made(self, name: str, kind: Kind, *terms: Term, at: slice | None = None) -> Term:
        """A function or an operator over checked terms."""
        at = at or across(terms[0].at, terms[-1].at)
        if any(term.kind is Kind.REFUSED for term in terms):
            return Term(FALSE, Kind.REFUSED, at)
        depth = 1 + max(term.depth for term in terms)
        if depth > MAX_DEPTH:
            raise self.stop(at, TOO_DEEP)
        return Term(call(name, *(term.expression for term in terms)), kind, at, depth)

    def constant(self, at: slice, kind: Kind, read: Callable[[str], str], value: str) -> Term:
        """A literal, or its refusal with the error of ``read``."""
        try:
            return Term(Literal(read(value), kind), kind, at)
        except ValueError as error:
            return self.refuse(at, str(error))

    def condition(self, term: Term, why: str = "must be a condition") -> Term:
        """A term that must be a condition."""
        fits = term.kind in (Kind.BOOLEAN, Kind.REFUSED)
        return term if fits else self.refuse(term.at, f"{why}, this is {term.kind.value}")

    def fallible(self, made: Term, *operands: Term) -> Term:
        """Note a possible failure: the result is NULL and no operand is."""
        given = [call("IS NOT NULL", term.expression) for term in operands if not term.constant]
        self.failures.append(call("AND", *given, call("IS NULL", made.expression)))
        return made

    def become(self, term: Term, *kinds: Kind) -> Term:
        """The term as one of ``kinds``. Text is converted; anything else the user must convert."""
        wanted = kinds[0]
        if term.kind in (*kinds, Kind.REFUSED) or wanted is Kind.REFUSED:
            return term
        if term.text is not None and wanted is Kind.TIMESTAMP:
            return self.constant(term.at, wanted, read_timestamp, term.text)
        if term.kind is Kind.TEXT and wanted is Kind.TIMESTAMP and not reads(term.expression):
            # Spark would take lower('NOW') for the time of the run.
            return self.refuse(term.at, "is a time made of texts; write it as TIMESTAMP '2026-01-05T08:15:00Z'")
        if term.text is not None and wanted in _FROM_TEXT:
            return self.refuse(term.at, f"is text, expected is {wanted.value}; write it without quotes")
        if term.kind is Kind.TEXT and wanted in _FROM_TEXT:
            return self.fallible(self.made(_FROM_TEXT[wanted], wanted, term), term)
        printable = {term.kind, wanted} <= {Kind.TEXT, Kind.NUMBER, Kind.TIMESTAMP, Kind.BINARY}
        hint = "; write string(…) around what is no text" if printable else ""
        return self.refuse(term.at, f"is {term.kind.value}, expected is {wanted.value}{hint}")

    def alike(self, *terms: Term) -> list[Term]:
        """The terms as one kind, so that Spark doesn't convert them: of the first that is no text, else text."""
        wanted = next((term.kind for term in terms if term.kind is not Kind.TEXT), Kind.TEXT)
        if wanted in _COMPARABLE:
            return [self.become(term, wanted) for term in terms]
        why = f"compares {wanted.value}, which cannot be done; name one value of it"
        return [self.refuse(across(terms[0].at, terms[-1].at), why)] * len(terms)

    def column(self, name: Token, field: Token | None = None) -> Term:
        """A column, or a field of ``source``."""
        column, at = name.value.lower(), across(name.at, (field or name).at)
        kind = self.columns.kinds.get(column)
        if kind is None:
            return self.refuse(at, REFUSED.get(name.key) or self.columns.explain(name.value))
        self.columns_read.add(column)
        if field is None:
            return Term(Read(column), kind, at)
        of = SOURCE_FIELDS.get(field.value.lower()) if kind is Kind.STRUCT else None
        if of is None:
            fields = ", ".join(f"source.{field}" for field in SOURCE_FIELDS)
            return self.refuse(at, f"is no field: those are {fields}; a header is headers['name']")
        return Term(Read(column, field.value.lower()), of, at)

    def function(self, name: Token, at: slice, *arguments: Term) -> Term:
        """A call of one of NAMES."""
        if name.key == "json" and len(arguments) == 2:
            return self._json(at, *arguments)
        if name.key == "coalesce" and arguments:
            terms = self.alike(*arguments)
            return self.made(name.key, terms[0].kind, *terms, at=at)
        function = FUNCTIONS.get(name.key)
        if function is None or not function.takes(len(arguments)):
            return self.refuse(at, "has too many or too few arguments")
        kinds = [*function.arguments, *function.arguments[-1:] * len(arguments)]
        terms = [self.become(term, *kind) for term, kind in zip(arguments, kinds, strict=False)]
        made = self.made(name.key, function.gives, *terms, at=at)
        return self.fallible(made, *terms) if function.fallible else made

    def no_function(self, name: Token, at: slice) -> Term:
        """The refusal of a call of any other name."""
        taken = f"is no function taken here; those are {', '.join(sorted(NAMES))}"
        return self.refuse(at, REFUSED.get(name.value.lower()) or taken)

    def _json(self, at: slice, document: Term, path: Term) -> Term:
        source, readable = document.expression, sorted(self.columns.documents)
        if document.kind is Kind.REFUSED:
            return document
        if not isinstance(source, Read) or source.column not in readable:
            why = f"is no JSON column {self.columns.location}; json() reads {', '.join(readable)}"
            return self.refuse(document.at, why)
        if path.text is None:
            return self.refuse(path.at, "must be a path in quotes, such as '$.name'")
        failed = call("AND", call("IS NOT NULL", source), call("NOT", call("messagestore.is_json", source)))
        if failed not in self.failures:
            self.failures.append(failed)
        read = self.constant(path.at, Kind.TEXT, check_path, path.text)
        return self.made("messagestore.json_text", Kind.TEXT, document, read, at=at)


def across(first: slice, last: slice) -> slice:
    """From the start of one part to the end of another."""
    return slice(first.start, last.stop)
