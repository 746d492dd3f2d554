"""Erased messages are removed from replays' staged records, and the other records keep their places."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.keyed import message_key
from messagestore_core.store.tombstones import Erased
from messagestore_jobs.frozen.replays import Frozen, ReplayState
from messagestore_jobs.frozen.staged import NO_RECORD, copies_left, take_out_copies
from messagestore_jobs.replay.freeze import nothing_selected
from support.replays import AT

KEY = b"k" * 32
ERASED = Erased(KEY, bytes.fromhex(message_key(KEY, "m2") + message_key(KEY, "urn:x 1")))
TWINS = [
    b'{"messageId":"m2","streamName":"a-1,\\"globalPosition\\":7","position":5,"globalPosition":6}',
    b'{"messageId":"m2","globalPosition":7}',
    b'{"messageId":"m2","globalPosition":1000000000000000000000}',
    b'{"messageId":"m3","globalPosition":5}',
]
RECORDS = [b'{"messageId":"m1","payload":"m2"}', b'{"messageId":"m2"}', b'{"messageId":"m3"}']


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    folder = tmp_path / "_replays" / "job" / "state" / "staging"
    (folder / "_temporary").mkdir(parents=True)
    (folder / "_temporary" / "part-0").write_bytes(RECORDS[1])
    (folder / "part-0").write_bytes(b"\n".join(RECORDS) + b"\n")
    (folder / ".part-0.crc").write_bytes(b"sums")
    return folder


def test_an_erased_record_is_replaced_by_an_empty_one(tmp_path: Path, staged: Path) -> None:
    assert sorted(copies_left(HeldStore(str(tmp_path)), ERASED)) == [
        "_replays/job/state/staging/_temporary/part-0 has a record of an erased message",
        "_replays/job/state/staging/part-0 has a record of an erased message",
    ]
    assert take_out_copies(HeldStore(str(tmp_path)), ERASED) == 1
    assert (staged / "part-0").read_bytes().splitlines() == [RECORDS[0], NO_RECORD.encode(), RECORDS[2]]
    assert [path.name for path in staged.rglob("*") if path.is_file()] == ["part-0"]
    assert list(copies_left(HeldStore(str(tmp_path)), ERASED)) == []
    assert take_out_copies(HeldStore(str(tmp_path)), ERASED) == 0


@pytest.mark.parametrize(
    ("origin", "left"),
    [
        ("own", [TWINS[0], NO_RECORD.encode(), NO_RECORD.encode(), TWINS[3]]),
        ("another", [NO_RECORD.encode(), NO_RECORD.encode(), NO_RECORD.encode(), TWINS[3]]),
        ("unknown", [NO_RECORD.encode(), NO_RECORD.encode(), NO_RECORD.encode(), TWINS[3]]),
    ],
)
def test_of_two_records_with_one_id_only_the_erased_message_leaves_but_both_if_positions_are_unknown(
    tmp_path: Path, staged: Path, origin: str, left: list[bytes]
) -> None:
    uri = {"own": str(tmp_path), "another": "file:///another", "unknown": None}[origin]
    held = HeldStore(str(tmp_path))
    ReplayState(held, held.objects("_replays", "job", "state")).freeze(frozen(uri))
    (staged / "part-0").write_bytes(b"\n".join(TWINS) + b"\n")
    erased = Erased(KEY, bytes.fromhex(message_key(KEY, "m2") * 2), pa.array([5, 7]))
    take_out_copies(HeldStore(str(tmp_path)), erased)
    assert (staged / "part-0").read_bytes().splitlines() == left
    assert list(copies_left(HeldStore(str(tmp_path)), erased)) == []


def frozen(store: str | None) -> Frozen:
    return Frozen(
        task="t", table=store, run="r", at=AT, selection=nothing_selected(), listed=False, end=None, splits=()
    )


@pytest.mark.parametrize("payload", [b"9" * 5000, b"[" * 998 + b"]" * 998], ids=["long number", "deep"])
def test_any_payload_is_looked_at(tmp_path: Path, staged: Path, payload: bytes) -> None:
    lines = [b'{"messageId":"%s","payload":%s}' % (name, payload) for name in (b"m1", b"m2")]
    (staged / "part-0").write_bytes(b"\n".join(lines))
    assert take_out_copies(HeldStore(str(tmp_path)), ERASED) == 1
    assert (staged / "part-0").read_bytes().splitlines() == [lines[0], NO_RECORD.encode()]
    assert list(copies_left(HeldStore(str(tmp_path)), ERASED)) == []


def test_dead_letters_that_name_an_erased_message_leave(tmp_path: Path, staged: Path) -> None:
    letters = [b'{"reason":"Unparseable","raw":"{\\"messageId\\": \\"m2\\""}', b'{"reason":"Unparseable","raw":"m22"}']
    (staged / "part-0").write_bytes(b"\n".join(letters))
    raws = [b'{"id": "urn:x 1"', b"urn:x 11", None]
    pq.write_table(pa.table({"value": pa.array(raws, pa.binary()), "uri": ["a", "b", "c"]}), staged / "part-1.parquet")
    assert take_out_copies(HeldStore(str(tmp_path)), ERASED) == 2
    assert (staged / "part-0").read_bytes().splitlines() == [NO_RECORD.encode(), letters[1]]
    assert pq.read_table(staged / "part-1.parquet")["uri"].to_pylist() == ["b", "c"]
    assert list(copies_left(HeldStore(str(tmp_path)), ERASED)) == []


def test_a_dead_letter_whose_id_is_told_goes_by_its_id_alone(tmp_path: Path, staged: Path) -> None:
    letters = [
        b'{"reason":"MissingField","messageId":"m2"}',
        b'{"reason":"MissingField","messageId":"m1","raw":"of m2"}',
    ]
    (staged / "part-0").write_bytes(b"\n".join(letters))
    told = {"value": pa.array([b"cut", b"of m2", b"of m2"], pa.binary()), "message_id": ["m2", "m1", None]}
    pq.write_table(pa.table({**told, "uri": ["a", "b", "c"]}), staged / "part-1.parquet")
    assert take_out_copies(HeldStore(str(tmp_path)), ERASED) == 2
    assert (staged / "part-0").read_bytes().splitlines() == [NO_RECORD.encode(), letters[1]]
    assert pq.read_table(staged / "part-1.parquet")["uri"].to_pylist() == ["b"]
    assert list(copies_left(HeldStore(str(tmp_path)), ERASED)) == []


@pytest.mark.parametrize("content", [b"the bytes of m2", b'["m2"]', b'{"messageId":2}', b'{"messageId":"\\ud800"}'])
def test_a_file_that_no_replay_writes_is_reported(tmp_path: Path, staged: Path, content: bytes) -> None:
    (staged / "part-0").write_bytes(content)
    (staged / "part-1.parquet").write_bytes(content)
    take_out_copies(HeldStore(str(tmp_path)), ERASED)
    assert list(copies_left(HeldStore(str(tmp_path)), ERASED)) == [
        f"_replays/job/state/staging/{name} is not what a replay writes there" for name in ("part-0", "part-1.parquet")
    ]
