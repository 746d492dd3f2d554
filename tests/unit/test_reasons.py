"""The documentation's lists of reasons are the code's.

Renew them with: RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/unit/test_reasons.py.
"""

import os
from pathlib import Path

import pytest

from messagestore_core.reasons import DeadLetterReason, ExplainedReason
from messagestore_operator.status.failures import Failure
from messagestore_operator.status.reasons import Reason

FILE = Path(__file__).parents[2] / "docs" / "reasons.md"
RENEW = "RENEW_SNAPSHOTS"


@pytest.mark.parametrize(("name", "reasons"), [("reasons", [*Reason, *Failure]), ("dead letters", [*DeadLetterReason])])
def test_each_reason_has_one_line_with_what_it_means_and_what_to_do(name: str, reasons: list[ExplainedReason]) -> None:
    rows = [f"| {one} | {one.meaning} | {one.remedy} |\n" for one in sorted(reasons)]
    table = "".join(["| reason | means | to do |\n", "| --- | --- | --- |\n", *rows])
    begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->\n"
    before, _, rest = FILE.read_text(encoding="utf-8").partition(begin)
    found, _, after = rest.partition(end)
    if RENEW in os.environ:
        FILE.write_text(f"{before}{begin}{table}{end}{after}", encoding="utf-8")
        found = table
    assert found == table, f"run again with {RENEW}=1"
