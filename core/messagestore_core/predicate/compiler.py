"""Parse a user's predicate within bounds, and check it."""

from dataclasses import dataclass

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from messagestore_core.predicate import atoms, calls, conditions, values
from messagestore_core.predicate.columns import MESSAGE_COLUMNS, ColumnSet
from messagestore_core.predicate.context import Context, PredicateError
from messagestore_core.predicate.expression import FALSE, Expression, call, size
from messagestore_core.predicate.literals import read_string

MAX_TEXT = 4096
MAX_TOKENS = 1500
MAX_NESTING = 24

_DIALECT = Spark()
_TOO_DEEP = f"is nested too deeply; at most {MAX_NESTING} levels are taken"
_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END})
_BEFORE_TYPE = frozenset({TokenType.ALIAS, TokenType.DCOLON})
_AFTER_NAMES = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.LT})
_NAMES = frozenset({TokenType.VAR, TokenType.IDENTIFIER})
_BRACKET = "is not taken here; [ ] reads a map by a text, as in headers['x']"
_STRINGS = frozenset({TokenType.STRING, TokenType.RAW_STRING})
_FORBIDDEN = {
    TokenType.SEMICOLON: "a predicate is one expression and no statement",
    TokenType.HINT: "hints are not taken",
    TokenType.ARROW: "lambda functions are not taken; JSON is read by json(payload, '$.path')",
    TokenType.DARROW: "is no operator of Spark; JSON is read by json(payload, '$.path')",
    TokenType.PARAMETER: "parameters and variables are not taken; write the value itself",
    TokenType.PLACEHOLDER: "parameters and variables are not taken; write the value itself",
    TokenType.SESSION_PARAMETER: "parameters and variables are not taken; write the value itself",
}
_RULES = {**atoms.RULES, **conditions.RULES, **values.RULES, **calls.RULES}

MAX_SIZE = 20_000


class _Parser(SparkParser):
    """Spark's parser without knowledge of functions: each call stays as written, name and arguments."""

    FUNCTIONS = {}
    FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")}
    NO_PAREN_FUNCTIONS = {}
    NO_PAREN_FUNCTION_PARSERS = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}
    STRICT_CAST = True


def parse(text: str) -> exp.Expr:
    """Parse one expression of any kind; PredicateError if `text` is no expression or exceeds a bound."""
    if len(text) > MAX_TEXT:
        raise PredicateError.of(text, f"is longer than {MAX_TEXT} characters")
    if any(_is_unfit(character) for character in text):
        raise PredicateError.of(text, "holds a character that is no text (NUL, or half of a surrogate pair)")
    try:
        tokens = _check(_DIALECT.tokenize(text), text)
        trees = _Parser(dialect=_DIALECT).parse_into(exp.Condition, tokens, text)
    except PredicateError:
        raise
    except RecursionError:
        raise PredicateError.of(text, _TOO_DEEP) from None
    except ParseError as error:
        raise _explain(error, text) from None
    except Exception:
        # sqlglot raises errors of any type on some broken texts.
        raise PredicateError.of(text, "is no SQL expression") from None
    if len(trees) != 1 or trees[0] is None:
        raise PredicateError.of(text, "is no SQL expression")
    return trees[0]


@dataclass(frozen=True)
class Predicate:
    """A predicate that may run.

    `text` is what the user wrote, `columns` what it reads. `failure` is true for a record on which `condition`
    could not be evaluated: its result is NULL and a part of it failed (a CAST, a calculation, json() on bytes that
    are no JSON). Both are needed: a failed part in an unused branch of CASE or beside a false AND doesn't change
    the result, and a NULL alone is an absent value, which selects nothing.
    """

    text: str
    condition: Expression
    failure: Expression
    columns: frozenset[str]


def compile_predicate(text: str, columns: ColumnSet = MESSAGE_COLUMNS) -> Predicate:
    """Check `text` and compile it; PredicateError says what is refused and why.

    The session must be in UTC. Nothing is left to Spark's implicit conversions, and what cannot be evaluated is NULL.
    """
    tree = parse(text)
    context = Context(columns, _RULES)
    try:
        condition = context.condition(tree, "a predicate must be a condition").expression
    except RecursionError:
        raise PredicateError.of(text, "is nested too deeply") from None
    if context.refusals:
        raise PredicateError(context.refusals)
    failures = tuple(context.failures)
    failure = call("AND", call("IS NULL", condition), call("OR", *failures)) if failures else FALSE
    if size(condition) + size(failure) > MAX_SIZE:
        raise PredicateError.of(text, "grows too large, as nested parts of it are asked again and again")
    return Predicate(text=text, condition=condition, failure=failure, columns=frozenset(context.columns_read))


def _is_unfit(character: str) -> bool:
    return character == "\0" or "\ud800" <= character <= "\udfff"


def _explain(error: ParseError, text: str) -> PredicateError:
    detail = error.errors[0] if error.errors else {}
    part = str(detail.get("highlight") or text)
    lines = text.splitlines(keepends=True)
    before = sum(map(len, lines[: int(detail.get("line") or 1) - 1]))
    position = before + int(detail.get("col") or 0) - len(part) + 1
    placed = text[position - 1 : position - 1 + len(part)] == part
    return PredicateError.of(part, "is not expected here: no SQL expression", position if placed else None)


def _check(tokens: list[Token], text: str) -> list[Token]:
    """Refuse what tokens show already, and change tokens that sqlglot would read differently from Spark."""
    if not tokens:
        raise PredicateError.of(text, "is empty; a predicate is a condition such as payload_size > 2")
    if len(tokens) > MAX_TOKENS:
        raise PredicateError.of(text, f"has more than {MAX_TOKENS} words and signs")
    nesting = 0
    checked: list[Token] = []
    for token in tokens:
        source = text[token.start : token.end + 1]
        why = _why_not(token, source)
        if why:
            raise PredicateError.of(source, why, token.start + 1)
        nesting += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if nesting > MAX_NESTING:
            raise PredicateError.of(text[token.start :], _TOO_DEEP, token.start + 1)
        if token.token_type in _STRINGS:
            _add_string(checked, token, text)
            continue
        if token.token_type in _AFTER_NAMES:
            _settle_name(checked)
        if token.token_type == TokenType.L_BRACKET and not _is_name(checked):
            raise PredicateError.of(source, _BRACKET, token.start + 1)
        if token.token_type == TokenType.LT and checked and checked[-1].token_type in _Parser.NESTED_TYPE_TOKENS:
            raise PredicateError.of(source, "follows a type that nothing is cast to", token.start + 1)
        checked.append(token)
    return checked


def _why_not(token: Token, source: str) -> str | None:
    if token.comments:
        return "has a comment next to it; comments are not taken"
    if token.token_type == TokenType.HEX_STRING and source[0] == "0":
        return "is no number or row of bytes: write X'00ff' for bytes"
    return _FORBIDDEN.get(token.token_type)


def _settle_name(checked: list[Token]) -> None:
    """Turn a type's name before a sign into a plain name, as sqlglot would try both readings at each level."""
    if checked and checked[-1].token_type in _Parser.TYPE_TOKENS and not _is_type(checked):
        name = checked.pop()
        checked.append(Token(TokenType.VAR, name.text, name.line, name.col, name.start, name.end, []))


def _is_name(checked: list[Token]) -> bool:
    """Whether the last token is a column's name."""
    return bool(checked) and checked[-1].token_type in _NAMES and not _is_type(checked)


def _is_type(checked: list[Token]) -> bool:
    """Whether the last token is the type of a cast."""
    return len(checked) > 1 and checked[-2].token_type in _BEFORE_TYPE


def _add_string(checked: list[Token], token: Token, text: str) -> None:
    """Add a string. One right after another (`'it''s'`) continues that literal, with a quote between."""
    source = text[token.start : token.end + 1]
    try:
        value = read_string(source)
    except ValueError as error:
        raise PredicateError.of(source, str(error), token.start + 1) from None
    start = token.start
    if checked and checked[-1].token_type == TokenType.STRING:
        last = checked.pop()
        if last.end + 1 != token.start or text[last.end] != source[0]:
            raise PredicateError.of(source, "follows another text without an operator; join with ||", start + 1)
        value, start = f"{last.text}{source[0]}{value}", last.start
    checked.append(Token(TokenType.STRING, value, token.line, token.col, start, token.end, []))
