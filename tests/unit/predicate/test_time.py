"""Checking any predicate takes a limited time: the operator does it for every tenant."""

import random
from contextlib import suppress
from itertools import product
from time import thread_time

import pytest

from messagestore_core.predicate import PredicateError, compile_predicate
from messagestore_core.predicate.tokens import MAX_TEXT

SECONDS = 0.5

SHAPES = """
    int[ array[ map[ struct[ type[ headers[ `int`[ a::int[ 1::int[ date[ interval[ variant[ CAST(1,AS,int[ array<int>[
    map<int,int>[ array< map< struct< struct<a: int< a< 1::array< 1::map< 1::struct<a CAST(1,AS,array< interval<
    ( (( int( date( timestamp( decimal( varchar( lower( if( json( struct<int>( 1::decimal( CAST( TRY_CAST( [ { {'a':
    NOT NOT( - -( ~ ! + 1- 1|| 1<=> NULL:: x. x: 1. . x,-> 1,OR 1,AND 1= type,LIKE type,RLIKE type,NOT 1,IS 1,BETWEEN
    1,BETWEEN,1,AND 1,IN,( 1,IN,(( INTERVAL INTERVAL( INTERVAL,'1' DATE 'a' 'a', CASE CASE,WHEN CASE,1,WHEN
    CASE,WHEN,1,THEN CASE,WHEN,1,THEN,1,ELSE (SELECT SELECT FROM WITH,x,AS,( EXISTS( ANY( VALUES( TABLE( UNNEST(
    EXTRACT( COUNT(DISTINCT x,OVER,( x,FILTER,(WHERE 1,COLLATE 1,AT,TIME,ZONE PRIOR DISTINCT ? : $ @ ' " ` r'
"""
OPENINGS = SHAPES.split()
CLOSINGS = ["", ")", "]", ">", "::int)", "[1]", " END", " AS INT)"]


@pytest.fixture(autouse=True, scope="module")
def first_predicate() -> None:
    """Check one predicate first, so that imports and setup don't count for the others."""
    seconds("type = 'a'")


def seconds(text: str) -> float:
    """The least time of three: a garbage collection may slow any of them, but not all."""
    took = SECONDS + 1
    for _ in range(3):
        start = thread_time()
        with suppress(PredicateError):
            compile_predicate(text)
        took = min(took, thread_time() - start)
        if took < SECONDS:
            break
    return took


def nested(opening: str, closing: str, levels: int) -> str:
    most = (MAX_TEXT - len("1 = 1")) // (len(opening) + len(closing))
    return f"{opening * min(levels, most)}1{closing * min(levels, most)} = 1"


@pytest.mark.parametrize("opening", OPENINGS)
def test_deep_nesting_is_read_or_refused_in_time(opening: str) -> None:
    shape = f"{opening.replace(',', ' ')} " if "," in opening or opening.isalpha() else opening
    texts = [nested(shape, closing, levels) for closing, levels in product(CLOSINGS, (20, MAX_TEXT))]
    assert {text: took for text in texts if (took := seconds(text)) > SECONDS} == {}


def test_random_repeated_words_are_read_or_refused_in_time() -> None:
    chance = random.Random(16)
    words = [word for opening in OPENINGS for word in opening.split(",")]
    for _ in range(500):
        unit = " ".join(chance.choices(words, k=chance.randint(1, 4)))
        text = nested(f"{unit} ", chance.choice(CLOSINGS), chance.choice([12, 20, 40, MAX_TEXT]))
        assert seconds(text) < SECONDS, text
