"""Files that are read again: known records are duplicates, and dead letters that don't come again are closed."""

from datetime import timedelta
from typing import Any

import pytest

from messagestore_core.contract.ingest import IngestCounts
from support.ingests import START, Stream, lines, record
from support.long import few
from support.purges import break_off

BAD = b'{"messageId":}'
TWO = record("c") + record("d")


def anew(number: int, **settings: Any) -> dict[str, Any]:
    return {"source_id": f"landing-{number}", "read_again": number, **settings}


def open_letters(stream: Stream) -> list[bytes]:
    return [row["raw"] for row in stream.dead_letters() if row["redriven_at"] is None]


def first_read(stream: Stream) -> None:
    stream.arrive("a.jsonl", lines(record("a"), TWO, BAD))
    stream.arrive("b.jsonl", lines(record("b"), TWO.replace(b'"c"', b'"e"').replace(b'"d"', b'"f"')))
    assert stream.run().counts == IngestCounts(received=5, stored=2, dead_lettered=3)


def test_what_another_format_reads_is_stored_and_its_dead_letters_are_closed(stream: Stream) -> None:
    first_read(stream)
    assert stream.run(format="JSON").counts == IngestCounts()
    stream.settings |= anew(1, format="JSON")
    counts = stream.run(at=START + timedelta(hours=1)).counts
    assert counts == IngestCounts(received=7, stored=4, duplicates=3)
    assert sorted(stream.ids()) == list("abcdef")
    assert open_letters(stream) == [BAD]
    by = {row["redriven_by"] for row in stream.dead_letters()}
    assert by == {None, "readAgain/landing-1/1"}
    assert stream.run().counts == IngestCounts()


def test_a_dead_letter_that_comes_again_is_open_again(stream: Stream) -> None:
    first_read(stream)
    stream.settings |= anew(1, format="JSON")
    stream.run()
    stream.settings |= anew(2, format="JSONLines")
    assert stream.run().counts == IngestCounts(received=5, duplicates=5)
    assert len(open_letters(stream)) == 3


def test_each_part_of_a_file_closes_only_its_own_dead_letters(stream: Stream) -> None:
    first_read(stream)
    stream.settings |= anew(1, max_bytes_per_batch=40)
    assert stream.run().counts == IngestCounts(received=5, duplicates=5)
    assert len(open_letters(stream)) == 3


@pytest.mark.parametrize(
    ("write", "moment"),
    few(
        [("dead-letters-closed", "before"), ("dead-letters-closed", "after"), ("messages", "before")],
        ("dead-letters-closed", "after"),
    ),
)
def test_a_run_that_was_killed_as_it_closed_dead_letters_is_completed(stream: Stream, write: str, moment: str) -> None:
    first_read(stream)
    stream.settings |= anew(1, format="JSON")
    break_off(stream.run, write, moment)
    outcome = stream.run(at=START + timedelta(hours=1))
    assert outcome.totals == IngestCounts(received=12, stored=6, duplicates=3, dead_lettered=3)
    assert open_letters(stream) == [BAD]


def test_dead_letters_that_an_unfinished_batch_closed_are_open_again(stream: Stream) -> None:
    first_read(stream)
    stream.settings |= anew(1, format="JSON")
    break_off(stream.run, "messages", "before")
    assert open_letters(stream) == [BAD]
    stream.settings |= {"source_id": "landing", "read_again": None, "format": "JSONLines"}
    assert stream.run().counts == IngestCounts()
    assert len(open_letters(stream)) == 3
