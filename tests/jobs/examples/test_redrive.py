"""The example of a redrive does what docs/patterns/dead-letter-and-redrive.md says, to the record."""

from datetime import UTC, datetime
from pathlib import Path

from messagestore.reader import Reader
from support.local_runs import LocalRuns, render
from support.stores import stored


def test_redrive(local_run: LocalRuns, tmp_path: Path) -> None:
    work = tmp_path / "redrive"
    first = local_run.run_text(render("redrive/1-as-it-was", tmp_path), "--at", "2026-02-11T00:00:00Z")
    assert first.exit_code == 0, first.stderr
    totals = first.status("MessageStream/readings")["totals"]
    assert (totals["received"], totals["stored"], totals["deadLettered"]) == (9, 5, 4)
    with Reader(f"file://{work}/readings") as store:
        letters = {letter.raw: letter for letter in store.dead_letters()}
    site = (work / "landing/other-site.jsonl").read_bytes().splitlines()
    landed = (work / "landing/readings.jsonl").read_bytes().splitlines()
    assert {raw: letter.reason for raw, letter in letters.items()} == {
        landed[2]: "PayloadTooLarge",
        landed[5]: "PayloadTooLarge",
        site[0]: "MissingField",
        site[1]: "Unparseable",
    }
    assert letters[site[1]].source["uri"] == f"file://{work}/landing/other-site.jsonl"
    assert {letter.redriven_at for letter in letters.values()} == {None}

    second = local_run.run_text(render("redrive/2-mended", tmp_path), "--at", "2026-02-12T00:00:00Z")
    assert second.exit_code == 0, second.stderr
    progress = second.status("ReplayJob/redrive-readings")["progress"]
    assert [progress[name] for name in ("replayed", "stored", "deadLettered", "duplicates")] == [4, 3, 1, 0]
    assert second.ready("ReplayJob/redrive-readings")[:2] == ("True", "Replayed")
    readings = stored(f"file://{work}/readings")
    assert [row["message_id"] for row in readings[:5]] == ["r-1", "r-2", "r-4", "r-5", "r-7"]
    assert {row["message_id"]: row["stream_name"] for row in readings[5:]} == {
        "r-3": "shelf-1",
        "r-6": "shelf-0",
        "r-8": "rack-2",
    }
    assert {row["payload"] for row in readings[5:]} == {landed[2], landed[5], site[0]}
    with Reader(f"file://{work}/readings") as store:
        again = {letter.raw: letter for letter in store.dead_letters(redriven=True)}
        (open_one,) = store.dead_letters(redriven=False)
    assert set(again) == {landed[2], landed[5], site[0]}
    assert {letter.redriven_by for letter in again.values()} == {"default/redrive-readings"}
    assert {letter.redriven_at for letter in again.values()} == {datetime(2026, 2, 12, tzinfo=UTC)}
    assert (open_one.raw, open_one.reason, open_one.failed_at) == (
        site[1],
        "Unparseable",
        datetime(2026, 2, 12, tzinfo=UTC),
    )
    assert (open_one.tries, [one["failed_at"] for one in open_one.earlier]) == (2, [datetime(2026, 2, 11, tzinfo=UTC)])
    # No file was read again: nine records, and the four that were redriven.
    assert second.status("MessageStream/readings")["totals"] == {
        "received": 13,
        "stored": 8,
        "duplicates": 0,
        "deadLettered": 5,
        "filtered": 0,
        "discarded": 0,
        "unknownFields": 0,
    }
