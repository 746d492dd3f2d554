"""The commands of the documentation, word for word: they succeed, and print what the page shows.

Without MESSAGESTORE_DOCUMENTS=all (`make test-documents`) only the tutorial's, as each command starts its own Spark.
tests/jobs/examples tests what their manifests do.
"""

import os
import re
import shutil
from pathlib import Path

import pytest

from support.documents import REPOSITORY, RUN, blocks, run_script, within

END = "-- end of a block --"

PAGES = list(RUN) if os.environ.get("MESSAGESTORE_DOCUMENTS") == "all" else ["docs/tutorial.md"]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page(page: str, tmp_path: Path) -> None:
    """Run them in a folder with the examples, with the page's data moved into it."""
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    for manifest in (tmp_path / "examples").rglob("*.yaml"):
        manifest.write_text(within(tmp_path, manifest.read_text()))
    run = [block for block in blocks() if block.page == page and block.heading in RUN[page]]
    script = "".join(f"{block.commands}\necho '{END}'\n" for block in run)
    done = run_script(script, tmp_path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = done.stdout.split(f"{END}\n")
    for block, output in zip(run, outputs, strict=False):
        if block.output is not None:
            wanted = ".*".join(re.escape(part) for part in _plain(within(tmp_path, block.output)).split("…"))
            assert re.fullmatch(wanted, _plain(output), re.DOTALL), f"{block.text}\nprinted:\n{output}"
    assert outputs[len(run) :] == [""]


def _plain(text: str) -> str:
    """The text without the spaces that align columns."""
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines())
