"""Reads a predicate: operators by precedence, each part checked as it is read, in time linear in the text."""

from dataclasses import dataclass

from messagestore_core.predicate.checks import MAX_DEPTH, TOO_DEEP, Checks, Term, across
from messagestore_core.predicate.columns import MESSAGE_COLUMNS, ColumnSet, Kind
from messagestore_core.predicate.expression import FALSE, Expression, Literal, call, size
from messagestore_core.predicate.functions import NAMES, REFUSED
from messagestore_core.predicate.literals import escape_like, is_simple_like, read_interval, read_number, read_timestamp
from messagestore_core.predicate.refusal import PredicateError
from messagestore_core.predicate.tokens import Token, tokenize

MAX_SIZE = 20_000

_OR, _AND, _NOT, _TEST, _SUM, _PRODUCT, _SIGN = range(1, 8)
_COMPARISONS = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
# Spark's try_ functions: where `+` would wrap or throw, they give NULL, which counts as a failure.
_ARITHMETIC = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}
_TIMES = {
    ("-", Kind.TIMESTAMP, Kind.TIMESTAMP): Kind.INTERVAL,
    **{(sign, Kind.TIMESTAMP, Kind.INTERVAL): Kind.TIMESTAMP for sign in "+-"},
    **{(sign, Kind.INTERVAL, Kind.INTERVAL): Kind.INTERVAL for sign in "+-"},
    ("+", Kind.INTERVAL, Kind.TIMESTAMP): Kind.TIMESTAMP,
}
_NEGATED = ("in", "between", "like")
_POWERS = {
    "or": _OR,
    "and": _AND,
    **dict.fromkeys((*_COMPARISONS, *_NEGATED, "is", "not"), _TEST),
    **dict.fromkeys("+-", _SUM),
    **dict.fromkeys("*/%", _PRODUCT),
}


@dataclass(frozen=True)
class Predicate:
    """A predicate that may run.

    ``text`` is what the user wrote, ``columns`` what it reads. ``failure`` is true for a record on which ``condition``
    could not be evaluated: its result is NULL and a part of it failed (a conversion, a calculation, json() on bytes
    that are no JSON). Both are needed: a failed part beside a false AND doesn't change the result, and a NULL alone is
    an absent value, which selects nothing.
    """

    text: str
    condition: Expression
    failure: Expression
    columns: frozenset[str]


def compile_predicate(text: str, columns: ColumnSet = MESSAGE_COLUMNS) -> Predicate:
    """Check ``text`` and compile it; PredicateError says what is refused and why.

    The session must be in UTC. Nothing is left to Spark's implicit conversions, and what cannot be evaluated is NULL.
    """
    checks, everything = Checks(text, columns), slice(0, len(text))
    condition = _Parser(checks, tokenize(text)).predicate(everything).expression
    if checks.refusals:
        raise PredicateError(checks.refusals)
    failures = checks.failures
    failure = call("AND", call("IS NULL", condition), call("OR", *failures)) if failures else FALSE
    if size(condition) + size(failure) > MAX_SIZE:
        raise checks.stop(everything, "grows too large, as parts of it are asked again and again")
    return Predicate(text=text, condition=condition, failure=failure, columns=frozenset(checks.columns_read))


class _Parser:
    """Reads the tokens of one predicate."""

    def __init__(self, checks: Checks, tokens: list[Token]) -> None:
        self._checks, self._tokens = checks, tokens
        self._index = self._levels = 0

    def predicate(self, everything: slice) -> Term:
        if self._next.kind == "end":
            raise self._checks.stop(everything, "is empty; a predicate is a condition such as payload_size > 2")
        term = self._expression()
        if self._next.kind != "end":
            raise self._unexpected()
        return self._checks.condition(term, "a predicate must be a condition")

    def _expression(self, power: int = 0) -> Term:
        """Read up to an operator that binds no closer than ``power``."""
        self._levels += 1
        if self._levels > MAX_DEPTH:
            raise self._checks.stop(slice(self._next.at.start, None), TOO_DEEP)
        term = self._operand(power)
        while (binds := _POWERS.get(self._next.key, 0)) > power:
            term = self._operator(term, self._take(), binds)
        self._levels -= 1
        return term

    def _operator(self, left: Term, sign: Token, power: int) -> Term:
        match sign.key:
            case "or" | "and":
                return self._chain(left, sign, power)
            case "not" if self._next.key in _NEGATED:
                return self._checks.made("NOT", Kind.BOOLEAN, self._operator(left, self._take(), power))
            case "not":
                raise self._unexpected()
            case "is":
                negated = self._taken("not")
                self._expect("null")
                test = self._checks.made("IS NULL", Kind.BOOLEAN, left)
                return self._checks.made("NOT", Kind.BOOLEAN, test) if negated else test
            case "in":
                self._expect("(")
                return self._in(*self._checks.alike(left, *self._list()))
            case "between":
                low = self._expression(power)
                self._expect("and")
                return self._between(*self._checks.alike(left, low, self._expression(power)))
            case "like":
                return self._like(self._checks.become(left, Kind.TEXT), self._take())
            case key if key in _ARITHMETIC:
                return self._calculate(key, left, self._expression(power))
        terms = self._checks.alike(left, self._expression(power))
        return self._checks.made(_COMPARISONS[sign.key], Kind.BOOLEAN, *terms)

    def _chain(self, first: Term, sign: Token, power: int) -> Term:
        """One call of a chain of AND or of OR, however long it is."""
        terms = [first, self._expression(power)]
        while self._taken(sign.key):
            terms.append(self._expression(power))
        return self._checks.made(sign.key.upper(), Kind.BOOLEAN, *map(self._checks.condition, terms))

    def _between(self, value: Term, low: Term, high: Term) -> Term:
        if value.kind is Kind.BOOLEAN:
            return self._checks.refuse(value.at, "is a condition; BETWEEN compares numbers, texts or times")
        return self._checks.made("BETWEEN", Kind.BOOLEAN, value, low, high)

    def _in(self, value: Term, *items: Term) -> Term:
        if not items:
            return self._checks.refuse(value.at, "is in no list: literals stand after IN")
        for item in items:
            if not item.constant:
                self._checks.refuse(item.at, "is no literal; after IN stand literals other than NULL")
        return self._checks.made("IN", Kind.BOOLEAN, value, *items)

    def _like(self, value: Term, pattern: Token) -> Term:
        """Leave simple patterns to Spark; for others use our own function, as Spark's takes long."""
        if pattern.kind != "text":
            raise self._checks.stop(pattern.at, "is not taken; after LIKE stands one text literal")
        sign = self._take().value if self._taken("escape") else "\\"
        if len(sign) != 1 or sign in "%_":
            return self._checks.refuse(pattern.at, "is not taken; after ESCAPE stands one character")
        written = self._checks.constant(pattern.at, Kind.TEXT, lambda text: escape_like(text, sign), pattern.value)
        name = "LIKE" if is_simple_like(written.text or "") else "messagestore.like"
        return self._checks.made(name, Kind.BOOLEAN, value, written)

    def _calculate(self, sign: str, left: Term, right: Term) -> Term:
        kind = _TIMES.get((sign, left.kind, right.kind), Kind.NUMBER)
        if kind is Kind.NUMBER:
            left, right = self._checks.become(left, kind), self._checks.become(right, kind)
        return self._checks.fallible(self._checks.made(_ARITHMETIC[sign], kind, left, right), left, right)

    def _operand(self, power: int) -> Term:
        token = self._take()
        match token.key:
            case "(":
                term = self._expression()
                self._expect(")")
                return term
            case "-":
                return self._negative(token)
            case "not" if power <= _NOT:
                return self._checks.made("NOT", Kind.BOOLEAN, self._checks.condition(self._expression(_NOT)))
            case "null":
                return self._checks.refuse(token.at, "is compared with nothing; write IS NULL or IS NOT NULL")
            case "x" | "r" if self._next.kind == "text":
                self._take()
                why = "is no prefix of a text here; a text is in plain quotes, and bytes are compared by payload_sha256"
                return self._checks.refuse(token.at, why)
            case "and" | "or" | "in" | "between" | "like":
                raise self._checks.stop(token.at, "is an operator; what stands here must be a value or a condition")
        if literal := self._literal(token):
            return literal
        if token.kind in ("word", "name"):
            return self._named(token)
        self._index -= token.kind != "end"
        raise self._unexpected()

    def _literal(self, token: Token) -> Term | None:
        match token.kind, token.key:
            case "text", _:
                return self._checks.constant(token.at, Kind.TEXT, str, token.value)
            case "number", _:
                return self._checks.constant(token.at, Kind.NUMBER, read_number, token.value)
            case _, "true" | "false":
                return Term(Literal(token.key == "true", Kind.BOOLEAN), Kind.BOOLEAN, token.at)
            case _, "timestamp" if self._next.kind == "text":
                time = self._take()
                return self._checks.constant(across(token.at, time.at), Kind.TIMESTAMP, read_timestamp, time.value)
            case _, "interval" if self._next.kind in ("text", "number"):
                amount, unit = self._take(), self._take()
                text, at = f"{amount.value} {unit.value}", across(token.at, unit.at)
                return self._checks.constant(at, Kind.INTERVAL, read_interval, text)
        return None

    def _negative(self, sign: Token) -> Term:
        if self._next.kind == "number":
            number = self._take()
            return self._checks.constant(across(sign.at, number.at), Kind.NUMBER, read_number, f"-{number.value}")
        return self._calculate("-", Term(Literal("0", Kind.NUMBER), Kind.NUMBER, sign.at), self._expression(_SIGN))

    def _named(self, name: Token) -> Term:
        """A column, a field of ``source``, a value of a map, or a call."""
        if self._taken("("):
            if name.key in NAMES:
                arguments = self._list()
                return self._checks.function(name, across(name.at, self._last.at), *arguments)
            self._skip()
            return self._checks.no_function(name, across(name.at, self._last.at))
        if self._taken("."):
            return self._checks.column(name, self._take())
        column = self._checks.column(name)
        return self._value(column, self._take()) if self._taken("[") else column

    def _value(self, values: Term, key: Token) -> Term:
        if key.kind != "text" or values.kind not in (Kind.MAP, Kind.REFUSED):
            at = self._next.at if self._next.key == "]" else key.at
            raise self._checks.stop(across(values.at, at), "is not taken; [ ] reads a map, as in headers['x']")
        self._expect("]")
        name = self._checks.constant(key.at, Kind.TEXT, str, key.value)
        return self._checks.made("[]", Kind.TEXT, values, name, at=across(values.at, self._last.at))

    def _list(self) -> list[Term]:
        """The terms up to a closing parenthesis; the opening one is taken."""
        terms: list[Term] = []
        while not self._taken(")"):
            if terms:
                self._expect(",")
            terms.append(self._expression())
        return terms

    def _skip(self) -> None:
        """Skip to behind the parenthesis that closes the one just taken, or to the end."""
        opened = 1
        while opened and self._next.kind != "end":
            key = self._take().key
            opened += (key == "(") - (key == ")")

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    @property
    def _last(self) -> Token:
        return self._tokens[self._index - 1]

    def _take(self) -> Token:
        token = self._next
        self._index += token.kind != "end"
        return token

    def _taken(self, key: str) -> bool:
        """Take the next token if it is this word or sign."""
        taken = self._next.key == key
        self._index += taken
        return taken

    def _expect(self, key: str) -> None:
        if not self._taken(key):
            raise self._unexpected()

    def _unexpected(self) -> PredicateError:
        why = REFUSED.get(self._next.key) or "is not expected here"
        return self._checks.stop(self._next.at, why if self._next.kind != "end" else "ends too early")
