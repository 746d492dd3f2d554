"""docs/filters.md shows each function of a predicate, and all that it shows is taken."""

import re
from pathlib import Path

import pytest

from messagestore_core.predicate import compile_predicate
from messagestore_core.predicate.functions import NAMES

PAGE = (Path(__file__).parents[3] / "docs/filters.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of a section's table."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines[2:]]


FUNCTIONS = {re.sub(r"\W.*", "", name.strip("`")): example.strip("`") for name, _, example in rows("Functions")}
WHERE = [where.strip("`") for _, where in rows("By what people choose")]


def test_the_page_has_each_function_once() -> None:
    assert set(FUNCTIONS) == NAMES
    assert len(rows("Functions")) == len(NAMES)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_function_is_taken_and_uses_it(name: str) -> None:
    assert f"{name}(" in FUNCTIONS[name]
    assert compile_predicate(FUNCTIONS[name]).text == FUNCTIONS[name]


@pytest.mark.parametrize("where", WHERE)
def test_usual_conditions_are_accepted(where: str) -> None:
    assert compile_predicate(where).columns
