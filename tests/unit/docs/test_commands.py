"""Each command of the documentation has a test, or a reason why it has none."""

import re

import pytest

from support.documents import (
    NOT_RUN,
    RUN,
    RUN_BY_PLUGIN,
    RUN_IN_CLUSTER,
    RUN_ON_API_SERVER,
    RUN_ON_BROKER,
    RUN_WITH_OTHER_NAMES,
    SHELL,
    Block,
    blocks,
)

COMMANDS = re.compile(
    r"^(\$|make|messagestore|kubectl|helm|python3?|pip|curl|sed|cp|mkdir|export|\.venv/bin/\S+) ", re.M
)


def _places(found: dict[str, tuple[str, ...]] | dict[str, dict[str, str]]) -> set[tuple[str, str]]:
    return {(page, heading) for page, headings in found.items() for heading in headings}


def test_each_block_of_commands_is_run_or_has_a_reason() -> None:
    there = {(block.page, block.heading) for block in blocks() if block.language in SHELL}
    pages = RUN, RUN_WITH_OTHER_NAMES, RUN_IN_CLUSTER, RUN_ON_BROKER, RUN_BY_PLUGIN
    run = set(RUN_ON_API_SERVER).union(*map(_places, pages))
    assert there - run - _places(NOT_RUN) == set(), "run them, or say in tests/support/documents.py why not"
    assert (run | _places(NOT_RUN)) - there == set(), "these are not there any more"
    assert run & _places(NOT_RUN) == set()


def test_a_block_of_commands_says_that_it_is_one() -> None:
    assert [block for block in blocks() if block.language not in SHELL and COMMANDS.search(block.text)] == []


@pytest.mark.parametrize("language", ["console", "sh"])
def test_of_a_console_block_only_lines_behind_a_prompt_are_run(language: str) -> None:
    block = Block("page.md", "Heading", language, "$ ls\nfile\n")
    assert (block.commands, block.output) == (("ls\n", "file") if language == "console" else ("$ ls\nfile\n", None))


def test_a_backslash_continues_a_command_in_the_next_line() -> None:
    block = Block("page.md", "Heading", "console", "$ cp one \\\n    another\n$ ls\nfile\nanother\n")
    assert block.each == ["cp one \\\n    another", "ls"]
    assert (block.commands, block.output) == ("cp one \\\n    another\nls\n", "file\nanother")
