"""Reading a store that was written row by row."""

import hashlib
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pytest

from messagestore.errors import (
    ArgumentError,
    BrokenMessageError,
    MessageStoreError,
    StoreNotFoundError,
    StoreUnreadableError,
    VersionNotFoundError,
)
from messagestore.message import Message
from messagestore.reader import Reader, Share
from messagestore.snapshot import PAGE
from messagestore_core.contract.records import FieldSource, Translator
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import FORMAT_VERSION
from messagestore_core.store.heads import raise_heads
from messagestore_core.store.layout import LOG, entry_name
from messagestore_core.store.objects import Objects
from messagestore_core.store.schemas import AUDIT, MESSAGES
from messagestore_core.store.storage import Storage
from messagestore_core.versions import declare
from support.stores import START, Row, add_messages, add_rows, make_store, message


def in_stream(stream: str, first: int, count: int, at: int = 0, **given: object) -> list[Row]:
    """``count`` messages from a global position on, and from position ``at`` on."""
    return [message(first + i, stream_name=stream, position=at + i, **given) for i in range(count)]


def keys(messages: list[Message]) -> list[int]:
    return [m.global_position for m in messages]


def test_a_message_has_what_was_stored(tmp_path: Path) -> None:
    row = message(1, headers={"a": "b"}, metadata='{"x":1.10}', position=0)
    table = make_store(tmp_path / "store", [row])

    (found,) = Reader(table.uri).get_stream_messages("order-1")

    stored = {**row, "headers": {"a": "b"}}
    del stored["inserted_date"]
    assert {name: getattr(found, name) for name in stored} == stored
    assert (found.id, found.data, found.json()) == ("m1", '{"n":1}', {"n": 1})


def test_every_attribute_of_a_message_is_a_column() -> None:
    assert set(Message.__dataclass_fields__) <= set(MESSAGES.names)


def test_a_stream_is_read_by_position_from_the_one_that_is_named(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", in_stream("a-1", 1, 5), in_stream("a-2", 6, 5), in_stream("a-1", 11, 5, 5))
    store = Reader(table.uri)

    assert [m.position for m in store.get_stream_messages("a-1", 3, 4)] == [3, 4, 5, 6]
    assert [m.position for m in store.get_stream_messages("a-1", 9)] == [9]
    assert list(store.get_stream_messages("a-1", 10)) == []
    assert list(store.get_stream_messages("a-1", 0, 0)) == []


def test_a_category_is_read_by_global_position(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", in_stream("a-1", 1, 2), in_stream("b-1", 3, 2), in_stream("a-2", 5, 2))

    assert keys(list(Reader(table.uri).get_category_messages("a", 2))) == [2, 5, 6]


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_more_than_a_page_is_read_whole_and_in_order(tmp_path: Path, beyond: int) -> None:
    count = 2 * PAGE + beyond
    table = make_store(tmp_path / "store", reversed(in_stream("a-1", 1, count)))
    store = Reader(table.uri)

    assert keys(list(store.get_category_messages("a", batch_size=-1))) == list(range(1, count + 1))
    assert store.arrow.get_stream_messages("a-1", batch_size=PAGE + 7).num_rows == PAGE + 7
    group = {"consumer_group_member": 0, "consumer_group_size": 1}
    assert keys(list(store.get_category_messages("a", batch_size=-1, **group))) == list(range(1, count + 1))
    assert keys(list(store.get_category_messages("a", 5, PAGE + 7, **group))) == list(range(5, 5 + PAGE + 7))


def test_a_group_shares_a_category_without_overlap(tmp_path: Path) -> None:
    rows = [message(n, stream_name=f"a-{n % 7}", position=n // 7) for n in range(1, 71)]
    store = Reader(make_store(tmp_path / "store", rows).uri)

    shares = [
        keys(list(store.get_category_messages("a", consumer_group_member=m, consumer_group_size=3))) for m in (0, 1, 2)
    ]

    assert sorted(chain(*shares)) == list(range(1, 71))
    assert all(share == sorted(share) for share in shares)


def test_arguments_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    store = Reader(make_store(tmp_path / "store", []).uri)

    with pytest.raises(ArgumentError):
        store.get_category_messages("a-1")
    with pytest.raises(ArgumentError, match="LIMIT must not be negative"):
        store.get_stream_messages("a-1", batch_size=-2)


ODD = "order-\udcff"
"""An argument in another encoding than UTF-8, as Python gives it to the command line."""


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.get_message(ODD),
        lambda store: store.outcome(ODD),
        lambda store: store.history(ODD),
        lambda store: store.get_stream_messages(ODD),
        lambda store: store.get_category_messages("\udcff"),
        lambda store: store.stream_version(ODD),
        lambda store: store.get_last_stream_message("order-1", ODD),
        lambda store: store.find(types=[ODD]),
        lambda store: store.find(where=f"type = '{ODD}'"),
        lambda store: store.caused_by(ODD),
        lambda store: store.elapsed(ODD, "b"),
        lambda store: store.load_for_correlation(ODD),
        lambda store: store.load_for_resequencer(ODD, 1),
        lambda store: store.latest(ODD, 1),
    ],
)
def test_a_text_that_is_not_in_utf_8_is_refused(tmp_path: Path, call: Callable[[Reader], object]) -> None:
    store = Reader(make_store(tmp_path, []).uri)
    with pytest.raises(ArgumentError, match=r"is no text in UTF-8|half of a surrogate pair"):
        list(call(store) or ())  # type: ignore[call-overload]


@pytest.mark.parametrize("uri", ["s3a:/orders", "s3a://", "s3://[orders/a", "s3a://key:secret@orders/a", "S3A://a/b"])
def test_a_uri_without_a_bucket_is_refused_without_showing_it(uri: str) -> None:
    with pytest.raises(MessageStoreError, match=r"^a folder on object storage is s3a://bucket/folder, without cred"):
        Reader(uri)


def test_a_folder_whose_name_is_not_in_utf_8_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MessageStoreError, match="is no text in UTF-8"):
        Reader(f"{tmp_path}/caf\udce9")


def test_the_last_message_may_be_asked_for_by_type(tmp_path: Path) -> None:
    rows = in_stream("a-1", 1, 3, type="opened") + in_stream("a-1", 4, 2, at=3, type="closed")
    store = Reader(make_store(tmp_path / "store", rows).uri)

    last, opened = store.get_last_stream_message("a-1"), store.get_last_stream_message("a-1", "opened")

    assert (last and last.position, opened and opened.position) == (4, 2)
    assert store.get_last_stream_message("a-1", "other") is None
    assert store.get_last_stream_message("a-9") is None


def test_the_version_of_a_stream_outlives_a_purge(tmp_path: Path) -> None:
    import pyarrow as pa

    table = make_store(tmp_path / "store", in_stream("a-1", 1, 3))
    before = Reader(table.uri, version=HeldStore(table.uri).table("messages").version())
    raise_heads(HeldStore(table.uri), pa.table({"stream_name": ["a-1"], "next_position": [3]}), 4)
    HeldStore(table.uri).table("messages").delete()
    store = Reader(table.uri)

    assert list(store.get_stream_messages("a-1")) == []
    assert (store.stream_version("a-1"), store.stream_version("a-2")) == (2, None)
    assert before.stream_version("a-1") == 2


def test_new_messages_are_seen_by_the_next_call(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", in_stream("a-1", 1, 1))
    store = Reader(table.uri)
    under_way = store.get_stream_messages("a-1", batch_size=-1)
    add_messages(table.uri, in_stream("a-1", 2, 1, at=1))

    assert keys(list(under_way)) == [1]
    assert keys(list(store.get_stream_messages("a-1"))) == [1, 2]


def test_a_version_or_a_time_fixes_what_is_read(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", in_stream("a-1", 1, 1))
    before = Reader(table.uri)
    version, at = before.version, datetime.now(UTC)
    add_messages(table.uri, in_stream("a-1", 2, 1, at=1))

    assert keys(list(Reader(table.uri, version=version).get_stream_messages("a-1"))) == [1]
    assert keys(list(Reader(table.uri, at=at).get_stream_messages("a-1"))) == [1]
    assert keys(list(Reader(table.uri, at=at + timedelta(days=1)).get_stream_messages("a-1"))) == [1, 2]


def test_a_version_whose_time_nobody_wrote_is_read(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", in_stream("a-1", 1, 1))
    version = Reader(table.uri).version + 1
    (tmp_path / "store/messages" / LOG / entry_name(version)).write_text('{"commitInfo":{"operation":"WRITE"}}')
    store = Reader(table.uri, version=version)

    assert store.statistics().committed_at is None
    assert store.statistics().messages == 1


def test_a_missing_store_or_version_is_refused(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])

    with pytest.raises(StoreNotFoundError, match="is no message store"):
        Reader(f"file://{tmp_path}/nowhere")
    with pytest.raises(VersionNotFoundError, match="has no version 99: its newest is"):
        Reader(table.uri, version=99)
    for version in (-1, 1 << 64):
        with pytest.raises(VersionNotFoundError, match=f"has no version {version}: its newest is"):
            Reader(table.uri, version=version)
    with pytest.raises(VersionNotFoundError, match="has no version of 2000-01-01T00:00:00Z"):
        Reader(table.uri, at=datetime(2000, 1, 1, tzinfo=UTC))


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    make_store(tmp_path / "store", [])
    (tmp_path / "store" / "_messagestore.json").write_text('{"formatVersion": 99, "owner": {}}')

    with pytest.raises(StoreUnreadableError, match="format version 99"):
        Reader(f"file://{tmp_path}/store")


def test_a_payload_under_a_claim_check_is_in_the_message(tmp_path: Path) -> None:
    content = b'"large"'
    table = make_store(tmp_path / "store", in_stream("a-1", 1, 2))
    add_messages(table.uri, [claimed(tmp_path / "store", 3, content)])
    store = Reader(table.uri)

    assert [m.payload for m in store.get_stream_messages("a-1")] == [b'{"n":1}', b'{"n":2}', content]
    assert store.arrow.get_stream_messages("a-1")["payload"].to_pylist()[2] == content


def test_a_broken_message_is_never_handed_on(tmp_path: Path) -> None:
    changed = message(2, stream_name="a-1", position=1, payload_sha256=hashlib.sha256(b"other").hexdigest())
    table = make_store(tmp_path / "store", [])
    gone = claimed(tmp_path / "store", 3, b"x")
    (tmp_path / "store" / "payloads" / f"{3:020}").unlink()
    lost = message(4, stream_name="a-1", position=3, payload=None, payload_sha256=hashlib.sha256(b"").hexdigest())
    rows = [*in_stream("a-1", 1, 1), changed, gone, lost, *in_stream("a-1", 5, 1, at=4)]
    add_messages(table.uri, rows)
    told: list[BrokenMessageError] = []

    whole = list(Reader(table.uri, on_broken=told.append).get_stream_messages("a-1"))

    assert keys(whole) == [1, 5]
    assert [(error.message_id, error.stream_name, error.global_position) for error in told] == [
        ("m2", "a-1", 2),
        ("m3", "a-1", 3),
        ("m4", "a-1", 4),
    ]
    assert "not what was stored" in told[0].problem
    with pytest.raises(BrokenMessageError, match=r"m2 .stream a-1, global position 2.: its payload is not what"):
        list(Reader(table.uri).get_stream_messages("a-1"))
    with pytest.raises(BrokenMessageError):
        Reader(table.uri).arrow.get_stream_messages("a-1")


def test_older_envelopes_are_read_at_the_current_version(tmp_path: Path) -> None:
    rows = [
        message(1, position=0, schema_version=1, type="old", headers={"tenant": "a"}),
        message(2, position=1, schema_version=2, type="new"),
    ]
    table = make_store(tmp_path / "store", rows)
    store = Reader(table.uri)
    assert [m.type for m in store.get_stream_messages("order-1")] == ["old", "new"]
    translator = Translator(
        from_version=1, fields={"type": FieldSource(value="new")}, headers={"X-Tenant": FieldSource(rename="tenant")}
    )

    declare(HeldStore(table.uri), [translator])
    add_messages(table.uri, [message(3, position=2, schema_version=1, type="old")])

    found = list(store.get_stream_messages("order-1"))
    assert [(m.type, m.schema_version) for m in found] == [("new", 2)] * 3
    assert found[0].headers == {"X-Tenant": "a"}


def test_a_declaration_that_is_none_is_said(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [message(1, position=0)])
    (tmp_path / "store" / "_translators.json").write_text("{")

    with pytest.raises(StoreUnreadableError, match=r"_translators\.json declares no translators"):
        list(Reader(table.uri).get_stream_messages("order-1"))


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"payload_uri": "{outside}"}, "is no claim check of the store"),
        ({"payload_uri": "file://{store}/payloads/../../secret"}, "is no claim check of the store"),
        ({"payload_sha256": None}, "the row has no digest and size of it"),
        ({"payload_size": None}, "the row has no digest and size of it"),
        ({"payload_size": 7}, "6 bytes, not 7"),
        ({"payload_size": 5}, "more than 5 bytes"),
        # Neither is room made for what a row says, nor is it taken for a number of bytes.
        ({"payload_size": 1 << 62}, "6 bytes, not 4611686018427387904"),
        ({"payload_size": -5}, "more than -5 bytes"),
        ({"payload_sha256": "0" * 64}, "SHA-256"),
    ],
)
def test_no_payload_is_handed_on_that_the_store_has_not_written(tmp_path: Path, changed: Row, problem: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    table = make_store(tmp_path / "store", [])
    row = claimed(tmp_path / "store", 1, b"secret") | changed
    if row["payload_uri"]:
        row["payload_uri"] = row["payload_uri"].format(outside=f"file://{tmp_path}/secret", store=tmp_path / "store")
    add_messages(table.uri, [row])

    with pytest.raises(BrokenMessageError, match=problem):
        list(Reader(table.uri).get_stream_messages("a-1"))


def test_no_more_is_read_than_a_payload_had(tmp_path: Path) -> None:
    table = make_store(tmp_path / "store", [])
    add_messages(table.uri, [claimed(tmp_path / "store", 1, b"secret")])
    # Too large for any memory; a sparse file uses no disk.
    os.truncate(tmp_path / "store" / "payloads" / f"{1:020}", 1 << 40)

    with pytest.raises(BrokenMessageError, match="more than 6 bytes"):
        list(Reader(table.uri).get_stream_messages("a-1"))


def test_a_message_without_a_payload_is_whole(tmp_path: Path) -> None:
    rows = [message(1, stream_name="a-1", position=0, payload=None)]

    assert [m.payload for m in Reader(make_store(tmp_path / "store", rows).uri).get_stream_messages("a-1")] == [None]


def test_a_correlation_is_loaded_in_order_of_arrival(tmp_path: Path) -> None:
    rows = [
        message(n, position=n, correlation_id="saga-1" if n % 2 else "saga-2", status=status)
        for n, status in enumerate(["RECEIVED", "RECEIVED", "COMPLETED", "RECEIVED", "RECEIVED"], 1)
    ]
    store = Reader(make_store(tmp_path / "store", rows).uri)

    assert keys(list(store.load_for_correlation("saga-1"))) == [1, 5]
    assert keys(list(store.load_for_correlation("saga-1", ["RECEIVED", "COMPLETED"]))) == [1, 3, 5]
    with pytest.raises(ArgumentError, match="DONE is no status; there are RECEIVED"):
        store.load_for_correlation("saga-1", ["DONE"])


def test_a_sequence_is_loaded_by_number_from_any(tmp_path: Path) -> None:
    rows = [
        message(n, position=n, sequence_id="s", sequence_number=number) for n, number in enumerate([3, 1, 4, 2, 11], 1)
    ]
    store = Reader(make_store(tmp_path / "store", rows).uri)

    assert [m.sequence_number for m in store.load_for_resequencer("s")] == [1, 2, 3, 4, 11]
    assert [m.sequence_number for m in store.load_for_resequencer("s", 3, batch_size=2)] == [3, 4]


def test_unfinished_messages_can_be_read_to_resume_them(tmp_path: Path) -> None:
    later = START + timedelta(days=1)
    rows = [
        message(1, position=1),
        message(2, position=2, status="PROCESSING"),
        message(3, position=3, status="COMPLETED"),
        message(4, position=4, status="FAILED", retries=1, next_retry_at=later),
        message(5, position=5, status="FAILED", retries=9),
        message(6, position=6, status="EXPIRED"),
        message(7, position=7, expires_at=later),
    ]
    store = Reader(make_store(tmp_path / "store", rows).uri)

    assert keys(list(store.unfinished(as_of=START))) == [1, 2, 4, 7]
    assert keys(list(store.unfinished(as_of=later))) == [1, 2, 4]
    assert keys(list(store.unfinished(position=2, batch_size=1, as_of=START))) == [2]


def claimed(folder: Path, number: int, content: bytes) -> Row:
    """A message with its payload in a claim check of the store in ``folder``."""
    name = f"payloads/{number:020}"
    Objects(f"file://{folder}", Storage()).write(name, content)
    row = message(number, stream_name="a-1", position=number - 1, payload=content)
    return row | {"payload": None, "payload_uri": f"file://{folder}/{name}"}


def test_messages_are_counted_by_any_parts(tmp_path: Path) -> None:
    rows = [message(1, type=None), message(2), message(3, stream_name="a-1", status="FAILED"), message(4)]
    store = Reader(make_store(tmp_path / "store", rows).uri)

    assert store.summary(("type",)) == [Share(("created",), 3, 75.0), Share((None,), 1, 25.0)]
    assert store.summary(("category", "status")) == [
        Share(("a", "FAILED"), 1, 25.0),
        Share(("order", "RECEIVED"), 3, 75.0),
    ]
    with pytest.raises(ArgumentError, match="by stream, category, type, status; colour was given"):
        store.summary(("colour",))
    with pytest.raises(ArgumentError, match="once"):
        store.summary(("type", "type"))
    with pytest.raises(ArgumentError, match=r"^since has no time zone$"):
        store.elapsed("created", "paid", datetime(2026, 1, 5))
    assert Reader(make_store(tmp_path / "empty", []).uri).summary() == []


def test_the_audit_is_read_newest_first(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", []).uri
    rows = [
        {"at": START, "action": "Purge", "run": "a", "rules": '{"a":1}', "counts": [("removed", 2)], "bytes": 9},
        {"at": START + timedelta(hours=1), "action": "HoldAdded", "run": "b", "rules": "{no JSON", "requested_by": "x"},
    ]
    add_rows(HeldStore(uri), "audit", pa.Table.from_pylist(rows, AUDIT))
    store = Reader(uri)

    hold, purge = store.audit()

    assert (purge.action, purge.rules, purge.counts, purge.bytes) == ("Purge", {"a": 1}, {"removed": 2}, 9)
    assert (hold.rules, hold.counts, hold.requested_by) == ("{no JSON", {}, "x")
    assert [row.run for row in store.audit(["Purge"])] == ["a"]
    assert [row.run for row in store.audit(since=START + timedelta(minutes=1))] == ["b"]
    assert store.arrow.audit(batch_size=1)["run"].to_pylist() == ["b"]


def test_the_version_of_a_store_is_that_of_its_format(tmp_path: Path) -> None:
    assert Reader(make_store(tmp_path / "store", []).uri).message_store_version() == str(FORMAT_VERSION)
