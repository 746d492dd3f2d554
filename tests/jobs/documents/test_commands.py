"""The commands of the documentation, word for word: they succeed, and print what the page shows.

Without MESSAGESTORE_DOCUMENTS=all (`make test-documents`) only the tutorial's, as each command starts its own Spark.
tests/jobs/examples tests what their manifests do.
"""

import os
from pathlib import Path

import pytest

from support.documents import RUN, check_page

PAGES = list(RUN) if os.environ.get("MESSAGESTORE_DOCUMENTS") == "all" else ["docs/tutorial.md"]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    check_page(page, RUN[page], tmp_path)
