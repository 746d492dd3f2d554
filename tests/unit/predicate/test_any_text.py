from hypothesis import given, settings
from hypothesis import strategies as st

from messagestore_core.predicate import Predicate, PredicateError, compile_predicate
from messagestore_core.predicate.literals import read_string
from support.sparksql import own, sql, write_string

VOCABULARY = """
    message_id type payload payload_size retries headers source time sequence_end metadata status x
    . , ( ) [ ] { } < > = == <> <=> ! + - * / % || & | ^ ~ : :: ; ? @ $ # ` ' " \\ -- /* */ ->
    AND OR NOT IN IS NULL TRUE LIKE ILIKE RLIKE ESCAPE BETWEEN CASE WHEN THEN ELSE END CAST TRY_CAST AS
    INT STRING BOOL DECIMAL DATE TIMESTAMP INTERVAL DAY json lower coalesce concat if year map struct array
    SELECT FROM WHERE WITH VALUES TABLE LATERAL EXISTS ANY ALL UNION OVER DISTINCT FILTER reflect now
    'a' '$.a' 'it''s' '2026-01-05' X'00' r'a' 1 -1 1.5 1e3 10L 1BD 0x1
"""
WORDS = VOCABULARY.split()

texts = st.text() | st.lists(st.sampled_from(WORDS), max_size=25).map(" ".join)

text_values = st.recursive(
    st.sampled_from(["type", "headers['x']", "source.uri", "json(payload, '$.a')"]) | st.text().map(write_string),
    lambda inner: (
        st.builds("lower({})".format, inner)
        | st.builds("concat({}, {})".format, inner, inner)
        | st.builds("coalesce({}, {})".format, inner, inner)
    ),
    max_leaves=4,
)
numbers = st.recursive(
    st.sampled_from(["retries", "length(type)", "int(type)", "1.5"]) | st.integers(-5, 5).map(str),
    lambda inner: st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
    max_leaves=4,
)
conditions = st.recursive(
    st.builds("{} {} {}".format, text_values, st.sampled_from(["=", "<>", "<", ">="]), text_values)
    | st.builds("{} > {}".format, numbers, numbers)
    | st.builds("{} IS NOT NULL".format, text_values)
    | st.builds("{} BETWEEN {} AND {}".format, numbers, numbers, numbers)
    | st.just("time > '2026-01-05'"),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=5,
)


def compile_or_none(text: str) -> Predicate | None:
    try:
        return compile_predicate(text)
    except PredicateError:
        return None


@given(texts)
@settings(max_examples=600, deadline=None)
def test_any_text_is_taken_or_refused(text: str) -> None:
    predicate = compile_or_none(text)
    assert predicate is None or compile_predicate(own(predicate.condition)).condition == predicate.condition


@given(conditions)
@settings(max_examples=200, deadline=None)
def test_the_sql_of_an_accepted_predicate_compiles_to_the_same_predicate(text: str) -> None:
    predicate = compile_or_none(text)
    if predicate is None:
        assert len(text) > 200
        return
    again = compile_predicate(own(predicate.condition))
    assert again.condition == predicate.condition
    assert again.columns == predicate.columns


@given(st.text())
def test_a_string_is_read_as_it_was_written(value: str) -> None:
    literal = write_string(value)
    assert read_string(literal) == value
    assert literal.isprintable()
    predicate = compile_predicate(f"type = {literal}") if len(literal) < 4000 else None
    assert predicate is None or sql(predicate.condition) == f"(`type` = {literal})"
