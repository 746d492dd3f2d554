"""A table with a log that our runs would not write is refused before use; a table that we wrote is not."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from messagestore.errors import StoreUnreadableError
from messagestore.reader import Reader
from messagestore_core.contract.stores import Table
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.storage import Storage
from support import forgeries
from support.forgeries import Action
from support.stores import add_messages, make_store, message

Forged = Callable[[Path], Action]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return make_store(tmp_path / "store", [message(1)])


@pytest.fixture
def messages(tmp_path: Path, table: Table) -> Path:
    return tmp_path / "store" / "messages"


METADATA: dict[str, tuple[Forged, str]] = {
    "an expression": (lambda t: forgeries.generated(t, "error", "reflect('a', 'b')"), "column error"),
    "a default": (lambda t: forgeries.with_column_metadata(t, "error", CURRENT_DEFAULT="1"), "column error"),
    "a default of old files": (
        lambda t: forgeries.with_column_metadata(t, "error", EXISTS_DEFAULT="1"),
        "column error",
    ),
    "an invariant": (
        lambda t: forgeries.with_column_metadata(
            t, "retries", **{"delta.invariants": '{"expression":{"expression":"1"}}'}
        ),
        "column retries",
    ),
    "an identity": (
        lambda t: forgeries.with_column_metadata(
            t, "position", **{"delta.identity.start": 1, "delta.identity.step": 1}
        ),
        "column position",
    ),
    "a column id": (
        lambda t: forgeries.with_column_metadata(t, "error", **{"delta.columnMapping.id": 1}),
        "column error",
    ),
    "another type": (
        lambda t: forgeries.metadata(t, lambda _, fields: fields[0].update(type="long")),
        "column message_id",
    ),
    "a field within": (
        lambda t: forgeries.metadata(
            t, lambda _, fields: next(f for f in fields if f["name"] == "source")["type"]["fields"].pop()
        ),
        "column source",
    ),
    "one more column": (
        lambda t: forgeries.metadata(
            t, lambda _, fields: fields.append({"name": "more", "type": "string", "nullable": True, "metadata": {}})
        ),
        "a column more",
    ),
    "a missing column": (lambda t: forgeries.metadata(t, lambda _, fields: fields.pop(0)), "no column message_id"),
    "a constraint": (
        lambda t: forgeries.with_property(t, "delta.constraints.c", "reflect('a','b')"),
        "delta.constraints.c",
    ),
    "append only": (lambda t: forgeries.with_property(t, "delta.appendOnly", "true"), "delta.appendOnly"),
    "a column mapping": (lambda t: forgeries.with_property(t, "delta.columnMapping.mode", "name"), "columnMapping"),
    "other statistics": (
        lambda t: forgeries.with_property(t, "delta.dataSkippingStatsColumns", "payload"),
        "dataSkippingStatsColumns=payload",
    ),
    "a retention that is none": (
        lambda t: forgeries.with_property(t, "delta.logRetentionDuration", "interval x"),
        "logRetentionDuration",
    ),
    "a redirect": (
        lambda t: forgeries.with_property(t, "delta.redirectReaderWriter", '{"type":"PathBasedRedirect"}'),
        "redirect",
    ),
    "no partitions": (
        lambda t: forgeries.metadata(t, lambda action, _: action.update(partitionColumns=[])),
        "partitioned by nothing",
    ),
    "deletion vectors": (lambda _: forgeries.protocol(3, 7, "deletionVectors"), "deletionVectors"),
    "a feature of writers": (lambda _: forgeries.protocol(1, 7, "domainMetadata", "clustering"), "clustering"),
    "a newer writer": (lambda _: forgeries.protocol(1, 4), "writers of version 4"),
}

PATHS = [
    "file:///etc/passwd",
    "/etc/passwd",
    "../../other/part-0.parquet",
    "inserted_date=2026-01-05/../../part-0.parquet",
    "%2e%2e/%2e%2e/part-0.parquet",
    "..%2F..%2Fpart-0.parquet",
    "s3a://other/part-0.parquet",
    "a/part-0.parquet",
    "inserted_date=2026-01-05//etc/passwd",
    ".hidden.parquet",
    "part-0.parquet\n",
]


@pytest.mark.parametrize("forged", METADATA)
def test_metadata_that_no_run_writes_are_refused_by_name(table: Table, messages: Path, forged: str) -> None:
    action, told = METADATA[forged]
    forgeries.commit(messages, action(messages))

    with pytest.raises(TableRefusedError, match=r"store/messages has at version 2 what no run") as refused:
        open_folder(HeldStore.of(table, Storage()))

    assert told in str(refused.value)
    with pytest.raises(TableRefusedError):
        HeldStore(table.uri).table("messages")


@pytest.mark.parametrize("path", PATHS)
def test_a_file_elsewhere_is_refused_whoever_opens_the_table(table: Table, messages: Path, path: str) -> None:
    forgeries.commit(messages, forgeries.with_file(messages, path))

    with pytest.raises(TableRefusedError, match="it has the file"):
        HeldStore(table.uri).table("messages")
    with pytest.raises(StoreUnreadableError, match="it has the file"):
        Reader(table.uri)


def test_a_reader_that_is_open_looks_at_each_new_version(table: Table, messages: Path, tmp_path: Path) -> None:
    reader = Reader(table.uri)
    assert [m.message_id for m in reader.get_messages()] == ["m1"]
    (other,) = messages.rglob("*.parquet")
    shutil.copy(other, tmp_path / "elsewhere.parquet")

    forgeries.commit(messages, forgeries.with_file(messages, f"file://{tmp_path}/elsewhere.parquet"))

    with pytest.raises(StoreUnreadableError, match=r"elsewhere\.parquet"):
        list(reader.get_messages())


@pytest.mark.parametrize("entry", [0, 1])
def test_an_entry_that_is_replaced_after_it_was_looked_at_is_looked_at_again(
    table: Table, messages: Path, entry: int
) -> None:
    HeldStore(table.uri).table("messages")
    file = messages / "_delta_log" / f"{entry:020}.json"
    with file.open("a") as log:
        log.write(json.dumps(forgeries.with_file(messages, "../../elsewhere.parquet")) + "\n")

    with pytest.raises(TableRefusedError, match=r"it has the file \.\./\.\./elsewhere\.parquet"):
        HeldStore(table.uri).table("messages")


def test_every_table_is_looked_at(table: Table, tmp_path: Path) -> None:
    heads = tmp_path / "store" / "heads"
    forgeries.commit(heads, forgeries.with_property(heads, "delta.constraints.c", "true"))

    with pytest.raises(TableRefusedError, match="store/heads"):
        open_folder(HeldStore.of(table, Storage()))


def test_a_message_says_no_more_than_a_line_of_what_was_forged(table: Table, messages: Path) -> None:
    forgeries.commit(messages, forgeries.with_property(messages, "a\nb", "c" * 10_000))

    with pytest.raises(TableRefusedError) as refused:
        HeldStore(table.uri).table("messages")

    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 1000


def test_a_store_of_an_earlier_release_is_opened_and_gets_its_columns(table: Table, messages: Path) -> None:
    forgeries.commit(messages, forgeries.metadata(messages, lambda _, fields: fields.pop()))

    open_folder(HeldStore.of(table, Storage()))

    assert "hmac" in {field.name for field in DeltaTable(messages).schema().fields}


def test_the_statistics_setting_of_an_earlier_release_is_accepted_until_the_upgrade(
    table: Table, messages: Path
) -> None:
    forgeries.commit(
        messages,
        forgeries.with_property(
            messages,
            "delta.dataSkippingStatsColumns",
            "global_position,position,stream_name,time,inserted_at,expires_at,status,sequence_id",
        ),
    )
    HeldStore(table.uri).table("messages")
    add_messages(table.uri, [message(2)])

    open_folder(HeldStore.of(table, Storage()))
    add_messages(table.uri, [message(3)])

    found = pa.table(DeltaTable(messages).get_add_actions(flatten=True)).sort_by("min.global_position")
    assert found["min.category"].to_pylist() == ["order", None, "order"]
    assert found["max.message_id"].to_pylist() == ["m1", None, "m3"]
    assert [m.message_id for m in Reader(table.uri).get_category_messages("order")] == ["m1", "m2", "m3"]


def test_table_properties_that_maintenance_sets_are_accepted(table: Table, messages: Path) -> None:
    retention = {"delta.logRetentionDuration": "interval 86400 seconds"}
    DeltaTable(messages).alter.set_table_properties(retention)

    open_folder(HeldStore.of(table, Storage()))


def test_a_reader_reads_a_store_that_has_a_column_more(table: Table, messages: Path) -> None:
    newer = pa.table({"more": pa.array(["x"])})
    row = DeltaTable(messages).to_pyarrow_table().append_column("more", newer["more"])
    write_deltalake(messages, row, mode="append", schema_mode="merge")

    assert len(list(Reader(table.uri).get_messages())) == 2


def test_a_link_to_elsewhere_is_refused(table: Table, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "store" / "payloads").symlink_to(tmp_path / "secret")

    with pytest.raises(TableRefusedError, match="store/payloads is a link or a device"):
        open_folder(HeldStore.of(table, Storage()))
    with pytest.raises(StoreUnreadableError, match="store/payloads is a link or a device"):
        Reader(table.uri)


def test_a_file_of_a_later_version_is_found_too(table: Table, messages: Path) -> None:
    HeldStore(table.uri).table("messages")
    add_messages(table.uri, [message(2)])
    forgeries.commit(messages, forgeries.with_file(messages, "../x.parquet"))

    with pytest.raises(TableRefusedError, match="at version 3"):
        HeldStore(table.uri).table("messages")
