"""The documentation's list of reasons is the code's."""

import re
from pathlib import Path

import pytest

from messagestore_jobs.reasons import DeadLetterReason
from messagestore_operator.reasons import Reason

FILE = Path(__file__).parents[2] / "docs" / "reasons.md"


def _rows(title: str) -> list[list[str]]:
    """The cells of the rows below a heading, without the table's own head."""
    _, _, rest = FILE.read_text(encoding="utf-8").partition(f"## {title}\n")
    section = re.split(r"^## ", rest, flags=re.MULTILINE)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return rows[2:]


@pytest.mark.parametrize(("title", "reasons"), [("Resources and runs", Reason), ("Dead letters", DeadLetterReason)])
def test_each_reason_has_one_line_in_order_with_what_it_means_and_what_to_do(
    title: str, reasons: type[Reason] | type[DeadLetterReason]
) -> None:
    rows = _rows(title)
    assert [row[0] for row in rows] == sorted(reason.value for reason in reasons)
    assert [row[0] for row in rows if len(row) != 3 or not all(row)] == []
