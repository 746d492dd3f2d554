"""Messages are sealed when they are stored; a message that does not match its seal is not sent."""

import json
import shutil
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from messagestore.errors import BrokenMessageError
from messagestore.reader import Reader
from messagestore.verifying import Check, verify
from messagestore_core.contract.purge import Match, Rule, Scrub
from messagestore_core.contract.records import Integrity
from messagestore_core.contract.replay import ReplayOutcome
from messagestore_core.progress import Silent
from messagestore_core.seals import is_sealed
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import MARKER
from messagestore_core.store.storage import Storage
from messagestore_jobs.context import Run
from messagestore_jobs.replay.job import run_replay
from support.ingests import START, Stream, lines, record
from support.kept import Kept
from support.keys import KEY, VARIABLE
from support.purges import purge
from support.replays import files_replay, records
from support.stores import change_rows, stored

pytestmark = pytest.mark.usefixtures("compiled")

SEALED = Integrity(key_environment=VARIABLE)


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept[Stream]:
    folder = tmp_path_factory.mktemp("sealed")
    stream = Stream(spark, folder / "now", {"integrity": SEALED, "claim_check_bytes": 100})
    stream.arrive(
        "a.jsonl",
        lines(
            record(
                "m1",
                type="a",
                headers={"é": "1", "a": None, "b": ""},
                metadata={"n": 1.10},
                time="2026-01-05T11:00:00Z",
            ),
            record("m2", type="a", sequenceId="s", sequenceNumber=1, sequenceEnd=True, schemaVersion=2, ttl="P1D"),
            record("m3", type="a", payload=b'{"who": "me", "long": "' + b"x" * 200 + b'"}', headers={}),
            record("m4", type="a", payload=None),
        ),
    )
    stream.run()
    return Kept.of(stream, folder / "kept")


@pytest.fixture
def stream(kept: Kept[Stream]) -> Stream:
    return kept.again()


def replay(stream: Stream, folder: str, integrity: Integrity = SEALED, on_failed: str = "Fail") -> ReplayOutcome:
    document = files_replay(stream.table, stream.folder / folder, integrity=integrity, on_failed=on_failed)
    return run_replay(Run.of(document, stream.spark, Silent()))


def tamper(stream: Stream, message_id: str, **changes: str) -> None:
    change_rows(stream.table.uri, "messages", changes, f"message_id = '{message_id}'")


def test_every_message_is_sealed_and_python_makes_the_same_seal(stream: Stream) -> None:
    rows = stored(stream.table.uri)
    assert [is_sealed([KEY], row) for row in rows_of(stream)] == [True] * 4
    assert {row["hmac"][:3] for row in rows} == {"v2="}
    assert replay(stream, "out").progress.failed == 0
    assert len(records(stream.folder / "out")) == 4


def rows_of(stream: Stream) -> list[dict[str, Any]]:
    table = Store(stream.table.uri).table("messages").to_pyarrow_table().sort_by("global_position")
    return list(table.to_pylist())


def test_changed_messages_are_named_and_not_sent_and_fail_the_replay_at_its_end(stream: Stream) -> None:
    tamper(stream, "m1", type="'b'")
    tamper(stream, "m2", payload="X'7B7D20'", payload_sha256="null")
    tamper(stream, "m4", hmac="null")
    for _ in range(2):
        with pytest.raises(RunFailedError, match=r"3 of 4 selected .* global positions 1, 2, 4; all others") as failed:
            replay(stream, "out")
        assert failed.value.reason == "MessagesBroken"
    outcome = replay(stream, "out", on_failed="Continue")
    assert (outcome.progress.replayed, outcome.progress.failed) == (1, 3)
    assert outcome.progress.first_failed_positions == (1, 2, 4)
    assert [sent["messageId"] for sent in records(stream.folder / "out")] == ["m3"]


@pytest.mark.long
def test_messages_from_before_the_key_are_sent_where_that_is_accepted(stream: Stream) -> None:
    stream.arrive("b.jsonl", lines(record("m5")))
    stream.run(integrity=None)
    assert replay(stream, "refused", on_failed="Continue").progress.failed == 1
    assert replay(stream, "accepted", SEALED.model_copy(update={"unsigned": "Accept"})).progress.failed == 0


def test_a_check_of_the_whole_store_finds_broken_seals(stream: Stream) -> None:
    def checked() -> dict[str, Check]:
        return {check.name: check for check in verify(stream.table.uri, seal_keys=[KEY])}

    sound = checked()
    assert [check.problems for check in sound.values()] == [()] * 7
    assert [sound[name].examined for name in ("payloads", "seals")] == ["4 messages"] * 2
    change_rows(stream.table.uri, "messages", {"type": "'b'"}, "message_id = 'm2'")
    problems = {name: check.problems for name, check in checked().items() if check.problems}
    assert list(problems) == ["seals"]
    assert ("m2" in problems["seals"][0], "its seal matches no key" in problems["seals"][0]) == (True, True)
    broken: list[BrokenMessageError] = []
    with Reader(stream.table.uri, seal_keys=[KEY], on_broken=broken.append) as reader:
        assert [message.message_id for message in reader.get_messages()] == ["m1", "m3", "m4"]
        assert [message.message_id for message in reader.find(newest_first=False)] == ["m1", "m3", "m4"]
    assert list(map(str, broken)) == [*problems["seals"], *problems["seals"]]


def test_a_status_update_breaks_no_seal(stream: Stream) -> None:
    tamper(stream, "m1", status="'COMPLETED'", updated_at="inserted_at", result="X'31'", retries="2")
    assert replay(stream, "out").progress.failed == 0


def test_a_scrub_seals_again_only_messages_with_a_valid_seal(stream: Stream) -> None:
    tamper(stream, "m2", correlation_id="'another'")
    purge(
        stream.spark,
        stream.table,
        START,
        mode="Enforce",
        action="Scrub",
        scrub=Scrub(payload_paths=("$.who",), headers=("b",)),
        rules=(Rule(name="all", match=Match(types=("a",))),),
        integrity=SEALED,
    )
    rows = {row["message_id"]: row for row in rows_of(stream)}
    assert all(row["scrubbed_at"] is not None for row in rows.values())
    assert {name: is_sealed([KEY], row) for name, row in rows.items()} == {
        "m1": True,
        "m2": False,
        "m3": True,
        "m4": True,
    }
    outcome = replay(stream, "out", on_failed="Continue")
    assert (outcome.progress.replayed, outcome.progress.failed) == (3, 1)


def test_without_its_key_nothing_is_stored_or_sent(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    stream.arrive("b.jsonl", lines(record("m5")))
    with pytest.raises(RunFailedError, match=f"{VARIABLE} holds none"):
        stream.run()
    with pytest.raises(RunFailedError, match=f"{VARIABLE} holds none"):
        replay(stream, "out")


def test_a_store_of_an_earlier_release_gets_the_column(stream: Stream) -> None:
    old = Store(stream.table.uri).table("messages").to_pyarrow_table().drop_columns(["hmac"])
    shutil.rmtree(stream.folder / "store" / "messages")
    write_deltalake(str(stream.folder / "store" / "messages"), old, partition_by=["inserted_date"])
    marker = json.dumps({"formatVersion": 1, "owner": stream.table.owner.model_dump()})
    (stream.folder / "store" / MARKER).write_text(marker)
    open_folder(HeldStore.of(stream.table, Storage()))
    now = DeltaTable(str(stream.folder / "store" / "messages")).to_pyarrow_table()
    assert now["hmac"].to_pylist() == [None] * 4
    assert now.num_rows == old.num_rows
