"""Files as other systems write them: each example of examples/sources stores what its files have."""

from datetime import UTC, datetime
from pathlib import Path

from support.local_runs import EXAMPLES, LocalRuns, render
from support.stores import Row, stored


def test_sources(local_run: LocalRuns, tmp_path: Path) -> None:
    manifests = sorted(path.name for path in (EXAMPLES / "sources").glob("*.yaml"))
    text = "\n---\n".join(render(f"sources/{name}", tmp_path) for name in manifests)
    done = local_run.run_text(text, "--at", "2026-04-01T00:00:00Z")
    assert done.exit_code == 0, done.stderr

    def counts(name: str) -> tuple[int, int, int]:
        totals = done.status(f"MessageStream/{name}")["totals"]
        return totals["received"], totals["stored"], totals["deadLettered"]

    def rows(name: str) -> list[Row]:
        return stored(f"file://{tmp_path}/sources/{name}")

    assert counts("audit") == (5, 4, 1)
    assert [(row["stream_name"], row["type"]) for row in rows("audit")] == [
        ("s3.amazonaws.com", "PutBucketPolicy"),
        ("sts.amazonaws.com", "AssumeRole"),
        ("s3.amazonaws.com", "DeleteBucket"),
        ("microsoft.storage", "Write"),
    ]
    assert rows("audit")[1]["payload"].startswith(b'{"eventVersion":"1.11",')

    assert counts("clicks") == (5, 4, 1)
    assert [(row["message_id"], row["source"]["offset"]) for row in rows("clicks")] == [
        ("c-1", 0),
        ("c-2", 80),
        ("c-3", 163),
        ("c-5", 320),
    ]

    assert counts("notices") == (4, 3, 1)
    assert [(row["message_id"], row["stream_name"], row["payload"][:16]) for row in rows("notices")] == [
        ("o-1", "order-4711", b'{"kind": "Placed'),
        ("o-2", "order-4712", b'{"kind": "Placed'),
        ("o-3", "order-4711", b'{"kind": "Paid",'),
    ]

    assert counts("changes") == (4, 3, 1)
    assert done.status("MessageStream/changes")["lag"]["skippedFiles"] == 1
    assert [(row["message_id"], row["stream_name"], row["type"], row["time"]) for row in rows("changes")] == [
        ("24023128", "order-4711", "c", datetime(2026, 3, 2, 8, 45, 0, 123_000, UTC)),
        ("24023440", "order-4712", "c", datetime(2026, 3, 2, 8, 45, 1, 7_000, UTC)),
        ("24023992", "order-4711", "u", datetime(2026, 3, 2, 9, 45, tzinfo=UTC)),
    ]

    assert counts("bus") == (5, 3, 1)
    assert [(row["stream_name"], row["type"], row["payload"]) for row in rows("bus")] == [
        ("shop.orders-4711", "Order Placed", b'{"order":"4711","total":12.5}'),
        ("shop.orders-4712", "Order Placed", b'{"order":"4712","total":7.0}'),
        ("shop.orders-4711", "Order Paid", b'{"order":"4711","method":"card"}'),
    ]

    assert counts("github") == (4, 3, 1)
    assert [(row["message_id"], row["stream_name"], row["type"]) for row in rows("github")] == [
        ("2489651045", "repo-101", "PushEvent"),
        ("2489651051", "repo-102", "WatchEvent"),
        ("2489651053", "repo-101", "IssuesEvent"),
    ]
