"""The example of consumer groups does what docs/patterns/consumer-groups.md says, to the message."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.local_runs import EXAMPLES, LocalRuns, render

CONSUMER = EXAMPLES / "consumer-groups/consumer.py"


@pytest.mark.long
def test_consumer_groups(local_run: LocalRuns, tmp_path: Path) -> None:
    manifests, work = render("consumer-groups", tmp_path), tmp_path / "consumer-groups"
    first = local_run.run_text(manifests)
    assert first.exit_code == 0, first.stderr
    assert first.status("MessageStream/orders")["totals"]["stored"] == 12
    positions = work / "positions"
    positions.mkdir()

    def group(size: int, start: int = 0) -> list[list[str]]:
        """What each member reads, all at once."""
        arguments = [[f"file://{work}/orders", str(member), str(size), positions, str(start)] for member in range(size)]
        members = [
            subprocess.Popen([sys.executable, CONSUMER, *own], stdout=subprocess.PIPE, text=True) for own in arguments
        ]
        read = [member.communicate()[0].splitlines() for member in members]
        assert [member.returncode for member in members] == [0] * size
        return read

    # Number 6 is in a stream without an id, which no member reads, and 12 is in another category.
    assert group(3) == [
        ["1 order-1 Placed", "4 order-1 Paid", "7 order-4 Placed", "11 order-1 Shipped"],
        ["2 order-2 Placed", "8 order-2 Paid"],
        ["3 order-3 Placed", "5 order-7+east Packed", "9 order-7+west Packed", "10 order-3 Paid"],
    ]
    assert _kept(positions) == {"0-of-3": 11, "1-of-3": 8, "2-of-3": 10}

    shutil.copy(work / "later/2-noon.jsonl", work / "landing")
    second = local_run.run_text(manifests)
    assert second.exit_code == 0, second.stderr
    assert second.status("MessageStream/orders")["totals"]["stored"] == 15
    assert group(3) == [[], ["13 order-2 Shipped", "15 order-8 Placed"], ["14 order-3 Shipped"]]
    assert group(3) == [[], [], []]
    assert _kept(positions) == {"0-of-3": 11, "1-of-3": 15, "2-of-3": 14}

    # A group of another size starts at the lowest position: it misses nothing, and reads some messages again.
    assert group(2, start=min(_kept(positions).values())) == [
        ["14 order-3 Shipped"],
        ["13 order-2 Shipped", "15 order-8 Placed"],
    ]


def _kept(folder: Path) -> dict[str, int]:
    return {file.name: int(file.read_text()) for file in folder.iterdir()}
