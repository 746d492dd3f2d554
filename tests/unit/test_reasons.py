"""The documentation's lists of reasons are the code's.

Renew that of resources with: RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/unit/test_reasons.py.
"""

import os
import re
from pathlib import Path

from messagestore_core.reasons import DeadLetterReason
from messagestore_operator.reasons import Reason

FILE = Path(__file__).parents[2] / "docs" / "reasons.md"
BEGIN, END = "<!-- reasons -->\n", "<!-- /reasons -->\n"
RENEW = "RENEW_SNAPSHOTS"


def test_each_reason_of_resources_has_one_line_with_what_it_means_and_what_to_do() -> None:
    rows = [f"| {one} | {one.meaning} | {one.remedy} |\n" for one in sorted(Reason)]
    table = "".join(["| reason | means | to do |\n", "| --- | --- | --- |\n", *rows])
    before, _, rest = FILE.read_text(encoding="utf-8").partition(BEGIN)
    found, _, after = rest.partition(END)
    if RENEW in os.environ:
        FILE.write_text(f"{before}{BEGIN}{table}{END}{after}", encoding="utf-8")
        found = table
    assert found == table, f"run again with {RENEW}=1"


def test_each_reason_of_dead_letters_has_one_line_in_order_with_what_it_means_and_what_to_do() -> None:
    _, _, rest = FILE.read_text(encoding="utf-8").partition("## Dead letters\n")
    section = re.split(r"^## ", rest, flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line[:1] == "|"][2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert [row[0] for row in rows] == sorted(reason.value for reason in DeadLetterReason)
    assert [row[0] for row in rows if len(row) != 3 or not all(row)] == []
