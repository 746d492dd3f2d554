"""Input made to be too large, for a Java process with a driver's default size."""

import json
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable

from support.local_runs import AT, arrive, record, stream
from support.waiting import scaled

COMMAND = Path(sys.executable).parent / "messagestore"
DRIVER = ["--driver-memory", "1g", "--cores", "1"]
"""The chart's default."""
LINE = 700_000_000


@pytest.mark.long
def test_a_line_of_700_mb_in_a_gzip_of_3_mb_is_set_aside_and_the_rest_is_stored(tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    around = [json.dumps(record(n)).encode() + b"\n" for n in (2, 3)]
    (tmp_path / "landing" / "b.jsonl.gz").write_bytes(packed(around[0], level=1, after=b"\n" + around[1]))
    (tmp_path / "landing" / "c.jsonl.gz").write_bytes(packed(b"", level=9, after=b"\n"))
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(yaml.safe_dump(stream(tmp_path)))
    command = [str(COMMAND), "run", "-f", str(manifests), "--at", AT, *DRIVER, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=scaled(300), check=False)
    assert done.returncode == 0, done.stderr
    totals = json.loads(done.stdout)["items"][0]["status"]["totals"]
    assert (totals["received"], totals["stored"], totals["deadLettered"]) == (5, 3, 2)
    rows = DeltaTable(str(tmp_path / "orders" / "dead_letters")).to_pyarrow_table().to_pylist()
    by_file = {row["source"]["uri"].rpartition("/")[2]: row for row in rows}
    assert {row["reason"] for row in rows} == {"RecordTooLarge"}
    assert {row["raw"] for row in rows} == {b"x" * 65_536}
    assert f"{LINE} bytes long" in by_file["b.jsonl.gz"]["detail"]
    assert "more than 250 times its size" in by_file["c.jsonl.gz"]["detail"]


def packed(before: bytes, level: int, after: bytes) -> bytes:
    """A line of 700 MB between others; the test never has it whole in memory."""
    packer = zlib.compressobj(level, wbits=31)
    parts = [packer.compress(before)]
    parts += [packer.compress(b"x" * 10_000_000) for _ in range(LINE // 10_000_000)]
    parts += [packer.compress(after), packer.flush()]
    return b"".join(parts)
