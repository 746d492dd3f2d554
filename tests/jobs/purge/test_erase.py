"""An erased message leaves a tombstone, is never archived, and its bytes are gone when due."""

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from messagestore.reader import Reader
from messagestore_core.contract.destinations import StreamDestination
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.purge import Archive, Match, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import FrozenSelection, ReplayTask, Selection
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.contract.stores import Table
from messagestore_core.progress import Silent
from messagestore_core.store.audit import read_audit
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.keyed import message_key
from messagestore_core.store.objects import Objects, local_path
from messagestore_core.store.pending_updates import read_pending
from messagestore_core.store.schemas import HEADS, PENDING_UPDATES, TABLES
from messagestore_core.store.storage import Storage
from messagestore_core.store.tombstones import erased_positions, open_erased, tombstone_key
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Frozen, Key, ReplayState
from messagestore_jobs.purge.erase import LONGEST_LEAD
from messagestore_jobs.purge.remains import refuse_remains
from messagestore_jobs.replay import freeze, sending
from messagestore_jobs.replay.chunks import Size
from messagestore_jobs.replay.job import run_replay
from support.external_writes import observing
from support.purges import CrashError, archived_positions, erase, files_with, purge
from support.replays import Suspending, files_replay, replay_document, sent
from support.stores import (
    START,
    add_dead_letters,
    add_history,
    add_messages,
    add_rows,
    history_of,
    kept_heads,
    make_store,
    message,
    positions,
    stored,
)

DAY = timedelta(days=1)
NOW = START + 3 * DAY
SECRET = b"customer forty-two lives here"


def test_an_erased_message_is_in_no_file_of_the_store_once_it_is_due(spark: SparkSession, tmp_path: Path) -> None:
    secret = b'{"text":"%s"}' % SECRET
    rows = [message(n, correlation_id="customer-42" if n == 1 else None) for n in range(4)]
    rows[1] |= {"payload": secret, "payload_size": len(secret)}
    table = make_store(tmp_path / "store", rows)
    add_dead_letters(
        table.uri,
        [
            {"raw": b'{"messageId": "m1", "payload": "%s"}' % SECRET, "failed_at": NOW},
            {"raw": b'{"messageId": "m12"}', "failed_at": NOW},
        ],
    )
    assert files_with(table, SECRET)
    task = {
        "rules": (
            Rule(name="erasure", match=Match(correlation_ids=("customer-42",)), erase=True),
            Rule(name="cap", max_messages_per_stream=2),
        ),
        "archive": Archive(uri=f"file://{tmp_path}/archive"),
    }
    first = purge(spark, table, NOW, erase_within=7 * DAY, **task)
    assert (first.purge.purged, first.purge.erased, first.purge.archived) == (2, 1, 1)
    assert first.purge.erase_due_by == NOW + 7 * DAY
    assert first.purge.tombstones_version == HeldStore(table.uri).table("tombstones").version()
    assert positions(table.uri) == [2, 3]
    assert archived_positions(f"file://{tmp_path}/archive") == [0]
    key = tombstone_key(HeldStore(table.uri))
    assert key is not None
    assert open_erased(HeldStore(table.uri)).hashes(32).hex() == message_key(key, "m1")
    assert HeldStore(table.uri).table("dead_letters").to_pyarrow_table()["raw"].to_pylist() == [b'{"messageId": "m12"}']
    assert json.loads(read_audit(HeldStore(table.uri))[0]["rules"])["eraseDueBy"] == (NOW + 7 * DAY).isoformat()
    assert files_with(table, SECRET)

    early = erase(spark, table, NOW + 6 * DAY)
    assert (early.erased_at, early.erase_due_by) == (None, NOW + 7 * DAY)
    late = purge(spark, table, NOW + 6 * DAY, run="purge-2", **task)
    assert late.purge.erase_due_by == NOW + 7 * DAY
    assert files_with(table, SECRET)

    in_time = NOW + 7 * DAY - LONGEST_LEAD
    due = erase(spark, table, in_time, run="erase-2")
    assert (due.erased, due.erased_at, due.erase_due_by) == (1, in_time, None)
    assert files_with(table, SECRET) == []
    assert positions(table.uri) == [2, 3]
    audit = read_audit(HeldStore(table.uri))
    assert [(row["action"], row["run"], row["refers_to"]) for row in audit] == [
        ("Purge", "purge-1", None),
        ("Erase", "erase-2", "purge-1"),
    ]
    assert erase(spark, table, NOW + 8 * DAY, run="erase-3").erased_at is None
    assert len(read_audit(HeldStore(table.uri))) == 2


ANN: dict[str, Any] = {"message_id": "id-of-ann", "stream_name": "customer-ann", "position": 0}
ERASE_ANN = Rule(name="erasure", match=Match(stream_names=("customer-ann",), message_ids=("id-of-ann",)), erase=True)


def test_an_erasure_without_delay_leaves_no_byte_of_the_message(spark: SparkSession, tmp_path: Path) -> None:
    payload = b'{"text":"%s"}' % SECRET
    table = make_store(tmp_path / "store", [message(0, payload=payload, headers={"x": "token-of-ann"}, **ANN)])
    add_messages(table.uri, [message(1), message(2)])
    # The log also has entries in files that later commits remove, and in a file that a killed run left.
    purge(spark, table, NOW, run="purge-0", rules=(Rule(name="one", match=Match(message_ids=("m2",))),))
    payloads = Objects(f"{table.uri}/payloads", Storage())
    payloads.write(f"{0:020}-abc", payload)
    log = Objects(f"{table.uri}/messages/_delta_log", Storage())
    log.write(".left.tmp", log.read(f"{1:020}.json") or b"")
    add_history(table.uri, stored(table.uri), error=SECRET.decode())
    add_history(table.uri, stored(table.uri)[:1], ("never-committed", 1), error="of ann's second try")
    for name in (b"customer-ann", b"id-of-ann", b"token-of-ann", SECRET):
        assert files_with(table, name)

    purge(spark, table, NOW, rules=(ERASE_ANN,), erase_within=timedelta(0))
    assert files_with(table, SECRET)
    assert erase(spark, table, NOW).erased_at == NOW

    for name in (b"customer-ann", b"id-of-ann", b"token-of-ann", b"of ann's second try"):
        assert files_with(table, name) == []
    assert history_of(table.uri) == [("m1", SECRET.decode())]
    heads = kept_heads(HeldStore(table.uri))
    assert (heads.by_name, heads.next_position("customer-ann"), heads.next_global) == ({"order-1": 3}, 1, 3)
    assert Reader(table.uri).stream_version("customer-ann") == 0
    key = tombstone_key(HeldStore(table.uri))
    assert key is not None
    (asked,) = json.loads(read_audit(HeldStore(table.uri))[1]["rules"])["rules"]
    assert asked["match"]["messageIds"] == [f"hmac-sha256:{message_key(key, 'id-of-ann')}"]


def test_an_erasure_finds_a_row_of_the_history_that_is_left(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(0, **ANN), message(1)])
    before = stored(table.uri)
    purge(spark, table, NOW, rules=(ERASE_ANN,), erase_within=timedelta(0))
    add_history(table.uri, before)

    with pytest.raises(RunFailedError, match="history has a row of an erased message"):
        erase(spark, table, NOW)

    change = HeldStore(table.uri)
    change.delete_rows("history", "global_position = 0")
    assert erase(spark, table, NOW).erased == 1
    assert history_of(table.uri) == [("m1", None)]


EVENT_ID = "/shop#7%23a"
OTHER = {"message_id": "other", "stream_name": "other-1"}


def letters(table: Table) -> list[bytes]:
    return sorted(HeldStore(table.uri).table("dead_letters").to_pyarrow_table()["raw"].to_pylist())


def test_an_erasure_takes_along_the_dead_letters_that_it_names(spark: SparkSession, tmp_path: Path) -> None:
    """By id, and by the streams and correlation ids that its rules name; words count where a record tells nothing."""
    ann = {"message_id": EVENT_ID, "stream_name": "customer-ann", "correlation_id": "case-1"}
    rows = [message(0, **ann), message(1, stream_name="customer-bob", correlation_id="case-1"), message(2)]
    table = make_store(tmp_path / "store", rows)
    gone: list[dict[str, Any]] = [
        {"raw": b"an event", **OTHER, "message_id": EVENT_ID},
        {"raw": b"too large", **OTHER, "stream_name": "customer-ann"},
        {"raw": b"of its case", "message_id": "other", "stream_name": "customer-bob", "correlation_id": "case-1"},
        {"raw": b'{"messageId":"x","for":"customer-ann"', "reason": "Unparseable"},
        {"raw": b"by its key", "headers": [("kafka-key", EVENT_ID)]},
        {"raw": b"by its detail", "detail": "stream customer-ann is at 0"},
        {"raw": b"a stream that it does not tell: customer-ann", "message_id": "other"},
    ]
    kept: list[dict[str, Any]] = [
        {"raw": b"names m0, case-1 and customer-ann", **OTHER},
        {"raw": b"names customer-ann2 and case-1"},
        {"raw": b"of case-1 elsewhere", **OTHER, "correlation_id": "case-1"},
        {"raw": b"of bob", **OTHER, "stream_name": "customer-bob"},
    ]
    add_dead_letters(table.uri, [{"failed_at": NOW, **row} for row in (*gone, *kept)])
    rules = (
        Rule(name="ann", match=Match(stream_names=("customer-ann", "customer-eve")), erase=True),
        Rule(name="bob", match=Match(stream_names=("customer-bob",), correlation_ids=("case-1",)), erase=True),
        Rule(name="nothing", match=Match(stream_names=("other-1",)), erase=True),
        Rule(name="m2", match=Match(stream_names=("order-1",), message_ids=("m2",))),
    )
    purge(spark, table, NOW, erase_within=DAY, rules=rules)
    assert letters(table) == sorted(row["raw"] for row in kept)


def test_of_what_comes_after_an_erasure_the_erased_ids_leave_and_no_stream(spark: SparkSession, tmp_path: Path) -> None:
    event = message(0, message_id=EVENT_ID, stream_name="customer-ann")
    table = make_store(tmp_path / "store", [event, message(1, message_id="ann@example.org"), message(2)])
    rules = (Rule(name="ann", match=Match(stream_names=("customer-ann",)), erase=True),)
    rules += (Rule(name="mail", match=Match(message_ids=("ann@example.org",)), erase=True),)
    purge(spark, table, NOW, erase_within=DAY, rules=rules)
    gone: list[dict[str, Any]] = [
        {"raw": b"an event", **OTHER, "message_id": EVENT_ID},
        {"raw": b'e":"x","messageId":"ann@example.org","payload":{"a":"b'},
        {"raw": b'{"messageId":"ann@example.org'},
        {"raw": None, "headers": [("kafka-key", "ann@example.org")]},
        {"raw": b"by its detail", "detail": '"ann@example.org" comes twice'},
    ]
    kept: list[dict[str, Any]] = [
        {"raw": b"of a stream that lives on", **OTHER, "stream_name": "customer-ann", "reason": "InvalidField"},
        {"raw": b'names "ann@example.org"', **OTHER},
        {"raw": b"names customer-ann"},
    ]
    add_dead_letters(table.uri, [{"failed_at": NOW, **row} for row in (*gone, *kept)])
    outcome = erase(spark, table, NOW + DAY)
    assert outcome.erased_at == NOW + DAY
    assert letters(table) == sorted(row["raw"] for row in kept)
    assert outcome.table.dead_letters_by_reason == {"InvalidField": 1, "Unparseable": 2}


def by_sequence(table: Table, **select: Any) -> RunDocument:
    """A replay into the store itself, which knows a message for a second."""
    own = IngestTask(
        source_id="own", source=FilesSource(uri="file:///nowhere"), deduplication_window=timedelta(seconds=1)
    )
    to = StreamDestination(table=table, ingest=own)
    task = ReplayTask(job_id="job", order="Sequence", select=Selection(**select), destination=to)
    return replay_document(table, task)


@pytest.mark.long
def test_a_paused_replay_forgets_sequences_that_are_gone_and_sends_the_rest_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freeze, "SPLITS", 3)
    monkeypatch.setattr(sending, "chunk_size", lambda rate, cores: Size(2, 1 << 30))
    sequences = ["1-stays", "3-stays", "2-gone", "4-gone", "1-stays", "2-gone", "4-gone", None]
    rows = [
        message(n, sequence_id=sequence, sequence_number=n + 1, correlation_id="c" if "gone" in str(sequence) else None)
        for n, sequence in enumerate(sequences)
    ]
    table = make_store(tmp_path / "store", rows)
    document = by_sequence(table, limit=5)
    paused = run_replay(Run.of(document, spark, Silent()), Suspending(1))
    assert (paused.complete, paused.progress.replayed) == (False, 3)
    state = Objects(f"{table.uri}/_replays/job/state", Storage())
    of_here = Frozen.model_validate_json(state.read("frozen.json") or b"")
    for job, of in (("elsewhere", "file:///other"), ("earlier", None)):
        ReplayState(HeldStore(table.uri), state.below(f"../../{job}/state")).freeze(
            of_here.model_copy(update={"table": of})
        )
    purge(spark, table, NOW, erase_within=DAY, rules=(Rule(name="c", match=Match(correlation_ids=("c",)), erase=True),))

    done = erase(spark, table, NOW + DAY)

    assert done.erased_at == NOW + DAY
    assert any("_replays/earlier/state" in copies for copies in done.not_erased)
    assert not any("elsewhere" in copies for copies in done.not_erased)
    left = {name.split("/")[1] for name in (*files_with(table, b"2-gone"), *files_with(table, b"4-gone"))}
    assert left == {"elsewhere", "earlier"}
    outcome = run_replay(Run.of(document, spark, Silent()))
    assert outcome.complete
    assert (outcome.progress.replayed + outcome.progress.erased, outcome.progress.lost) == (5, 0)
    again = [row["message_id"] for row in stored(table.uri) if row["global_position"] > 7]
    assert [one for one in again if one not in ("m2", "m5")] == ["m0", "m4", "m1"]


@pytest.mark.long
def test_the_erasure_of_a_purge_whose_report_was_lost_stays_due_in_time(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(n) for n in range(1, 4)])
    for number, within in ((1, DAY), (2, 9 * DAY)):
        rule = Rule(name="one", match=Match(message_ids=(f"m{number}",)), erase=True)
        outcome = purge(spark, table, START + DAY, run=f"purge-{number}", rules=(rule,), erase_within=within)
    assert outcome.purge.erase_due_by == START + 2 * DAY


@pytest.mark.long
def test_a_waiting_preview_that_names_an_erased_message_is_dropped(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(0, **ANN), message(1)])
    purge(spark, table, NOW, erase_within=DAY, rules=(ERASE_ANN,))
    both = Rule(name="both", match=Match(message_ids=("id-of-ann", "m1")))
    assert purge(spark, table, NOW, rules=(both,), run="purge-2", approval_required=True).awaiting_approval
    assert erase(spark, table, NOW + DAY).erased_at
    assert files_with(table, b"id-of-ann") == []


@pytest.mark.long
def test_of_a_purge_that_was_cut_off_an_erasure_leaves_no_name(spark: SparkSession, tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(0, **ANN), message(1), message(2)])
    rules = (ERASE_ANN, Rule(name="other", match=Match(message_ids=("m1",))))

    def cut_off(name: str, moment: str) -> None:
        if (name, moment) == ("forget-plan", "before"):
            raise CrashError

    with observing(cut_off), pytest.raises(CrashError):
        purge(spark, table, NOW, erase_within=DAY, rules=rules)
    # Rows of a try that broke off, and of a preview that was never decided.
    for plan in (tmp_path / "store" / "_purges").iterdir():
        shutil.copytree(plan / "rows-1", plan / "rows-2")
        shutil.copytree(plan / "rows-1", tmp_path / "store" / "_purges" / "undecided" / "rows-1")
    assert erase(spark, table, NOW + DAY).erased_at
    for name in (b"customer-ann", b"id-of-ann"):
        assert files_with(table, name) == []
    assert files_with(table, b'"m1"')
    again = purge(spark, table, NOW + DAY, run="purge-2", erase_within=DAY, rules=()).purge
    assert (again.purged, positions(table.uri)) == (2, [2])
    heads = kept_heads(HeldStore(table.uri))
    assert (heads.by_name, heads.next_position("customer-ann")) == ({"order-1": 2}, 1)
    assert Objects(table.uri, Storage()).names("_purges") == []


def plant_position(table: Table) -> None:
    add_messages(table.uri, [message(0, payload=SECRET)])


def plant_id(table: Table) -> None:
    """A late copy, in a file around the erased position, which has no row at it."""
    late = NOW + timedelta(seconds=1)
    rows = [message(-1), message(9, payload=SECRET, message_id="id-of-ann")]
    add_messages(table.uri, [{**row, "inserted_at": late} for row in rows])


def plant_letter(table: Table) -> None:
    """One that alone its id shows."""
    add_dead_letters(table.uri, [{"raw": b"0", "message_id": "id-of-ann", "failed_at": NOW}])


def plant_head(table: Table) -> None:
    row = {"stream_name": "customer-ann", "next_position": 1}
    add_rows(HeldStore(table.uri), "heads", pa.Table.from_pylist([row], schema=HEADS))


def plant(name: str, content: bytes = SECRET) -> Callable[[Table], None]:
    return lambda table: Objects(table.uri, Storage()).write(name, content)


def plant_update(table: Table) -> None:
    row = {"message_id": "id-of-ann", "status": "FAILED", "received_at": NOW, "source_id": "u", "batch": 1, "row": 0}
    add_rows(HeldStore(table.uri), "pending_updates", pa.Table.from_pylist([row], schema=PENDING_UPDATES))


RECORD = b'{"messageId":"id-of-ann","payload":"%s"}\n' % SECRET


def plant_frozen(table: Table) -> None:
    ann: Key = (False, "sequence-of-ann", 1, 0)
    selection = FrozenSelection(table_version=0, messages=0, bytes=0)
    frozen = Frozen(
        table=table.uri, task="t", run="r", at=NOW, selection=selection, listed=False, end=ann, splits=()
    ).model_dump_json(by_alias=True)
    plant("_replays/job/state/frozen.json", frozen.encode())(table)


def plant_plan(table: Table) -> None:
    store = Path(local_path(table.uri))
    shutil.copytree(store.parent / "previews", store / "_purges", dirs_exist_ok=True)


def plant_rows(table: Table) -> None:
    plant_plan(table)
    (plan,) = Path(local_path(table.uri)).glob("_purges/*/plan.json")
    plan.unlink()


PLANTED: dict[str, Callable[[Table], None]] = {
    "messages/.* has a row of an erased message": plant_position,
    "messages/part-.* has a row of an erased message": plant_id,
    "heads has the name of a stream": plant_head,
    "dead_letters has a record": lambda table: add_dead_letters(table.uri, [{"raw": RECORD, "failed_at": NOW}]),
    "dead_letters has a record that": plant_letter,
    "pending_updates has an update": plant_update,
    "_replays/job/state/staging/part-0 has a record": plant("_replays/job/state/staging/part-0", RECORD),
    "_replays/job/records/part-0.jsonl is not what": plant("_replays/job/records/part-0.jsonl"),
    "_replays/job/copy is nothing that a run needs": plant("_replays/job/copy"),
    "_replays/job/state/frozen.json has the id of a sequence": plant_frozen,
    "_purges/p/copy is nothing": plant("_purges/p/copy"),
    "_purges/p/rows-1/part-0 is not what": plant("_purges/p/rows-1/part-0"),
    "_purges/.*/plan.json names an erased message": plant_plan,
    "_purges/.*/rows-1/part-.* has the name of a stream": plant_rows,
    "payloads/copy is nothing": plant("payloads/copy"),
    "messages/inserted_date=2026-01-05/copy.parquet is": plant("messages/inserted_date=2026-01-05/copy.parquet"),
    "heads/_delta_log/copy.json is nothing": plant("heads/_delta_log/copy.json"),
    "heads/_delta_log/0*.json is nothing": plant(f"heads/_delta_log/{0:020}.json"),
    "copy is nothing that a run needs": plant("copy"),
}


@pytest.mark.long
def test_a_copy_of_a_message_in_any_place_keeps_its_erasure_open(spark: SparkSession, tmp_path: Path) -> None:
    """Each copy appears after everything was removed, and right before the check."""
    table = make_store(tmp_path / "store", [message(0, **ANN), message(1)])
    purge(spark, table, NOW, run="purge-0", rules=(ERASE_ANN,), approval_required=True)
    shutil.copytree(tmp_path / "store" / "_purges", tmp_path / "previews")
    purge(spark, table, NOW, rules=(ERASE_ANN,), erase_within=timedelta(0))
    assert erase(spark, table, NOW).erased_at == NOW
    shutil.copytree(tmp_path / "store", tmp_path / "clean")
    # After the check only the audit's row was written.
    left = {name: HeldStore(table.uri).table(name).version() - (name == "audit") for name in TABLES}
    for words, place in PLANTED.items():
        place(table)
        with pytest.raises(RunFailedError, match=f"be: [^;]*{words}") as refused:
            refuse_remains(spark, HeldStore(table.uri), open_erased(HeldStore(table.uri)), left, set())
        assert refused.value.reason == "ErasureIncomplete"
        shutil.rmtree(tmp_path / "store")
        shutil.copytree(tmp_path / "clean", tmp_path / "store")
    refuse_remains(spark, HeldStore(table.uri), open_erased(HeldStore(table.uri)), left, set())


TWIN: dict[str, Any] = {"message_id": "id-of-ann"}
ERASE_OLD = Rule(name="old", match=Match(message_ids=("id-of-ann",)), max_age=2 * DAY, erase=True)
LATE = NOW + timedelta(minutes=5)


@pytest.mark.long
def test_of_two_messages_with_one_id_the_one_that_is_not_erased_stays_and_is_sent(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The clock of the ingest that let the other in was ahead of the purge's."""
    rows = [message(1, **TWIN, payload=SECRET), message(2), message(3, **TWIN, inserted_at=LATE), message(4)]
    table = make_store(tmp_path / "store", rows)
    plant_update(table)

    purge(spark, table, NOW, rules=(ERASE_OLD,), erase_within=timedelta(0))
    done = erase(spark, table, NOW)

    assert (done.erased, done.erased_at) == (1, NOW)
    assert files_with(table, SECRET) == []
    assert positions(table.uri) == [2, 3, 4]
    assert erased_positions(HeldStore(table.uri)).tolist() == [1]
    assert read_pending(HeldStore(table.uri))["message_id"].to_pylist() == ["id-of-ann"]
    run_replay(Run.of(files_replay(table, tmp_path / "sent"), spark, Silent()))
    assert sent(tmp_path / "sent") == [2, 3, 4]

    # Every later erasure looks at both again; one of them erases the other.
    everything = Rule(name="rest", match=Match(message_ids=("id-of-ann", "m2")), erase=True)
    purge(spark, table, NOW, run="purge-2", rules=(everything,), erase_within=timedelta(0))
    later = erase(spark, table, NOW, run="erase-2")
    assert (later.erased, later.erased_at) == (2, NOW)
    assert positions(table.uri) == [4]
    assert read_pending(HeldStore(table.uri)).num_rows == 0
