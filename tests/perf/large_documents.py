"""One file that has many times more records than a batch: ``python -m tests.perf.large_documents ELEMENTS MEGABYTES``.

A gzip of one array of so many small elements, and one of a document as CloudTrail writes it, which unpacks to so many
megabytes. Each is ingested by ``messagestore run`` in the default heap, into a new store.
"""

import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from deltalake import DeltaTable
from rich.console import Console
from rich.table import Table
from tests.perf import data

_COMMAND = Path(sys.executable).with_name("messagestore")
_AT_ONCE = 10_000
_STREAM = """
apiVersion: messagestore.dev/v1alpha1
kind: MessageStream
metadata: {{name: large}}
spec:
  table: {{uri: "file://{store}"}}
  source: {{files: {{uri: "file://{landing}", format: JSON, recordsPath: ["$.Records", "$"]}}}}
  trigger: {{manual: {{}}}}
  envelope:
    format: Custom
    fields:
      messageId: {{path: "$.{id}"}}
      category: {{value: c}}
      {more}
"""
_EVENT = {
    "eventVersion": "1.08",
    "userIdentity": {"type": "AssumedRole", "arn": "arn:aws:sts::111122223333:assumed-role/app/i-0abc", "x": "y" * 300},
    "eventTime": "2026-01-05T10:00:00Z",
    "eventSource": "s3.amazonaws.com",
    "eventName": "GetObject",
    "requestParameters": {"bucketName": "logs", "key": "a/b/c" * 30},
    "resources": [{"type": "AWS::S3::Object", "ARN": "arn:aws:s3:::logs/a/b/c" * 10}],
}


def main() -> None:
    """Make the files, ingest each, print seconds, batches and the largest memory of Python and Spark together."""
    elements, megabytes = (int(one) for one in sys.argv[1:])
    files = {
        f"an array of {elements:,} elements": (_array(elements), "a", ""),
        f"CloudTrail, {megabytes:,} MB": (_trail(megabytes), "eventID", "time: {path: $.eventTime}"),
    }
    table = Table("file", "unpacked MB", "records", "batches", "seconds", "peak MiB, of Python and Spark")
    for name, (parts, identity, more) in files.items():
        with tempfile.TemporaryDirectory(prefix="messagestore-perf-", dir=data.folder()) as work:
            table.add_row(name, *_ingested(Path(work), parts, identity, more))
    Console(width=120).print(table)


def _array(elements: int) -> Iterator[bytes]:
    yield b"["
    for first in range(0, elements, _AT_ONCE):
        some = b",".join(b'{"a":%d}' % n for n in range(first, min(first + _AT_ONCE, elements)))
        yield (b"," if first else b"") + some
    yield b"]"


def _trail(megabytes: int) -> Iterator[bytes]:
    event = json.dumps(_EVENT)[1:].encode()
    yield b'{"Records":['
    for n in range(megabytes * 1_000_000 // (len(event) + 20)):
        yield (b"," if n else b"") + b'{"eventID":"%d",' % n + event
    yield b"]}"


def _ingested(work: Path, parts: Iterator[bytes], identity: str, more: str) -> list[str]:
    landing, manifest = work / "landing", work / "stream.yaml"
    landing.mkdir()
    size = 0
    with gzip.open(landing / "a.json.gz", "wb", 1) as file:
        for part in parts:
            size += file.write(part)
    manifest.write_text(_STREAM.format(store=work / "store", landing=landing, id=identity, more=more))
    began = time.perf_counter()
    run = subprocess.Popen([_COMMAND, "run", "-f", str(manifest)], stdout=subprocess.PIPE, text=True)
    peak = 0
    while run.poll() is None:
        time.sleep(1)
        peak = max(peak, _resident(run.pid))
    seconds = time.perf_counter() - began
    assert run.returncode == 0, run.stdout and run.stdout.read()
    messages = DeltaTable(str(work / "store" / "messages"))
    records = sum(messages.get_add_actions(flatten=True)["num_records"].to_pylist())
    batches = len(set(DeltaTable(str(work / "store" / "files")).to_pyarrow_table()["batch"].to_pylist()))
    return [f"{size / 1e6:,.0f}", f"{records:,}", f"{batches:,}", f"{seconds:,.0f}", f"{peak >> 10:,}"]


def _resident(pid: int) -> int:
    """KiB of a process and of those that it started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,rss="], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [tuple(map(int, line.split())) for line in listed.splitlines()]
    family = {pid}
    for own, parent, _ in sorted(rows):
        family |= {own} if parent in family else set()
    return sum(size for own, _, size in rows if own in family)


if __name__ == "__main__":
    main()
