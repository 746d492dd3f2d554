"""The pages of docs/patterns on sources, and docs/capabilities.md: a row that works names a test; no cell is empty."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
PATTERNS = REPOSITORY / "docs/patterns"
HEADER = ["capability", "here", "how"]
WORDS = {"works", "partly", "not yet", "does not belong here"}
TEST = re.compile(r"\[`(test_\w+)`\]\(([^)]+)\)")
LISTED = (PATTERNS / "README.md").read_text().partition("## By source\n")[2]
PAGES = sorted(page.name for page in PATTERNS.glob("*.md") if f"| {' | '.join(HEADER)} |" in page.read_text())


def problems(text: str, folder: Path = PATTERNS) -> Iterator[str]:
    """What is wrong in the tables of a page of a folder."""
    for line in text.splitlines():
        if not line.startswith("|") or set(line) <= set("| -"):
            continue
        cells = [cell.strip() for cell in line.removeprefix("|").removesuffix("|").split("|")]
        if cells == HEADER:
            continue
        if len(cells) != len(HEADER) or not all(cells):
            yield f"not three cells with a text each: {line}"
            continue
        capability, here, how = cells
        tests = TEST.findall(how)
        if here not in WORDS:
            yield f"{capability}: {here} is none of {', '.join(sorted(WORDS))}"
        if here == "works" and not tests:
            yield f"{capability}: works, and names no test"
        for name, target in tests:
            if not _has((folder / target).resolve(), name):
                yield f"{capability}: {target} has no {name}"


def _has(file: Path, test: str) -> bool:
    is_ours = file.is_relative_to(REPOSITORY / "tests") and file.is_file()
    return is_ours and re.search(rf"^def {test}\(", file.read_text(), re.M) is not None


def test_each_page_is_listed() -> None:
    assert PAGES
    assert set(re.findall(r"\]\(([a-z-]+\.md)\)", LISTED)) == set(PAGES)
    assert set(re.findall(r"^\| ([a-z ]+) \| (?!means)", LISTED.partition("| word |")[2], re.M)) == WORDS


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_tests_that_are_there(page: str) -> None:
    assert list(problems((PATTERNS / page).read_text())) == []


def test_the_page_of_capabilities_names_tests_that_are_there() -> None:
    text = (REPOSITORY / "docs/capabilities.md").read_text()
    assert len(TEST.findall(text)) > 40
    assert list(problems(text, REPOSITORY / "docs")) == []


HERE = "../../tests/unit/docs/test_sources.py"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (f"| a | works | so: [`test_each_page_is_listed`]({HERE}) |", None),
        ("| a | not yet | today: by hand |", None),
        ("| a | works | so |", "a: works, and names no test"),
        (f"| a | works | so: [`test_gone`]({HERE}) |", f"a: {HERE} has no test_gone"),
        (f"| a | partly | so: [`test_gone`]({HERE}) |", f"a: {HERE} has no test_gone"),
        (f"| a | works | so: [`test_each_page`]({HERE}) |", f"a: {HERE} has no test_each_page"),
        ("| a | works | so: [`test_a`](test_a.py) |", "a: test_a.py has no test_a"),
        ("| a | planned | so |", "a: planned is none of does not belong here, not yet, partly, works"),
        ("| a | | so |", "not three cells with a text each: | a | | so |"),
        ("| a | works |", "not three cells with a text each: | a | works |"),
    ],
)
def test_a_wrong_row_of_the_page_of_capabilities_is_a_problem(row: str, problem: str | None) -> None:
    text = f"| {' | '.join(HEADER)} |\n| --- | --- | --- |\n{row}\n"
    assert list(problems(text)) == [one for one in [problem] if one]
