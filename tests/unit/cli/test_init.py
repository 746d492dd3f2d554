"""A folder's files become a manifest that validates, with the fields where people would have put them."""

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.testing import CliRunner

from messagestore_operator.cli.main import app
from messagestore_operator.manifests.load import load
from support.packing import PACKERS, skipped

runner = CliRunner()


def lines(*records: Any) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def proposed(folder: Path, *options: str) -> dict[str, Any]:
    """The spec of the manifest for a folder."""
    target = folder.parent / "stream.yaml"
    target.unlink(missing_ok=True)
    result = runner.invoke(app, ["init", str(folder), "-o", str(target), *options])
    assert result.exit_code == 0, result.output
    loaded = load([str(target)])
    assert not loaded.problems
    spec: dict[str, Any] = YAML(typ="safe").load(target)["spec"]
    return spec


def fields(spec: dict[str, Any]) -> dict[str, Any]:
    return {name: next(iter(source.values())) for name, source in spec["envelope"]["fields"].items()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "orders"
    made.mkdir()
    return made


def orders(count: int = 6) -> list[dict[str, Any]]:
    return [
        {
            "order_id": f"o-{number % 2}",
            "event": {"id": f"e-{number}", "type": ["Placed", "Paid"][number % 2]},
            "created_at": f"2026-03-0{number + 1}T10:00:00Z",
            "note": None,
        }
        for number in range(count)
    ]


def test_fields_of_json_lines_are_found_by_names_and_values(folder: Path) -> None:
    (folder / "1.jsonl").write_bytes(lines(*orders()))
    spec = proposed(folder)
    assert spec["source"]["files"] == {"uri": f"file://{folder}", "format": "JSONLines"}
    assert spec["table"]["uri"] == f"file://{folder.parent}/orders-store"
    assert fields(spec) == {
        "messageId": "$.event.id",
        "category": "orders",
        "streamId": "$.order_id",
        "type": "$.event.type",
        "time": "$.created_at",
        "payload": "$",
    }


def test_the_reasons_stand_beside_the_choices(folder: Path) -> None:
    (folder / "1.jsonl").write_bytes(lines(*orders()))
    text = runner.invoke(app, ["init", str(folder)]).stdout
    assert text.splitlines()[:2] == [
        "# By messagestore init, from a sample: 6 records, 1 of the folder's files.",
        "apiVersion: messagestore.dev/v1alpha1",
    ]
    for choice in (
        "messageId: {path: $.event.id} # differs in 6 of 6 records",
        "streamId: {path: $.order_id} # 2 values in 6 records",
        "type: {path: $.event.type} # 2 types in 6 records",
    ):
        assert choice in " ".join(text.split()), text


def test_the_first_records_are_shown_as_they_would_be_stored(folder: Path) -> None:
    (folder / "1.jsonl").write_bytes(lines(*orders(), "no object"))
    shown = runner.invoke(app, ["init", str(folder)]).stderr.splitlines()
    assert [" ".join(line.split()[:4]) for line in shown[1:4]] == [
        "e-0 orders-o-0 Placed 2026-03-01T10:00:00Z",
        "e-1 orders-o-1 Paid 2026-03-02T10:00:00Z",
        "e-2 orders-o-0 Placed 2026-03-03T10:00:00Z",
    ]
    assert shown[4:] == ["1 of 7 sampled would be dead letters, Unparseable: they are no JSON objects"]


def test_values_that_no_message_can_have_are_looked_at(folder: Path) -> None:
    odd = {"order_id": "o-\ud800", "note": "\udfff"}, {"created_at": "0001-01-01T00:00:00+14:00"}, {"ts": 10**400}
    (folder / "1.jsonl").write_bytes(lines(*(before | after for before, after in zip(orders(), odd * 2, strict=True))))
    assert fields(proposed(folder))["time"] == "$.created_at"


def test_native_records_and_cloud_events_need_no_fields(folder: Path) -> None:
    native = [{"messageId": f"m{number}", "streamName": "order-1", "payload": {}} for number in range(3)]
    (folder / "1.jsonl").write_bytes(lines(*native, {"messageId": "m1", "streamName": "order-1"}, {"payload": {}}))
    assert "envelope" not in proposed(folder)
    said = runner.invoke(app, ["init", str(folder)]).stderr
    assert "1 of 5 sampled would be dead letters: a required field is absent" in said
    assert "1 of 5 sampled would be counted as duplicates: another has their id" in said

    event = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "Placed", "subject": "17", "data": {}}
    (folder / "1.jsonl").write_bytes(lines(event, {**event, "id": "2"}))
    assert proposed(folder)["envelope"] == {"format": "CloudEvents"}
    assert "/shop#1" in (said := runner.invoke(app, ["init", str(folder)]).stderr)
    assert "/shop-17" in said


def test_documents_one_after_the_other_are_json(folder: Path) -> None:
    (folder / "clicks").write_bytes(lines(*orders()).replace(b"\n", b""))
    assert proposed(folder)["source"]["files"]["format"] == "JSON"
    (folder / "clicks").write_bytes(json.dumps(orders(), indent=2).encode())
    assert proposed(folder)["source"]["files"]["format"] == "JSON"
    (folder / "clicks").write_bytes(b"".join(b"\x1e" + line + b"\n" for line in lines(*orders()).splitlines()))
    assert proposed(folder)["source"]["files"]["format"] == "JSON"


@pytest.mark.parametrize("padding", [0, 5 << 20], ids=["whole", "larger than the sample"])
def test_the_array_that_has_the_records_is_named(folder: Path, padding: int) -> None:
    records = [
        {
            "eventID": f"id-{number}",
            "eventName": ["PutObject", "GetObject"][number % 2],
            "eventTime": f"2026-03-02T08:45:0{number}Z",
            "eventSource": "s3.amazonaws.com",
            "recipientAccountId": "123456789012",
            "requestParameters": {"bucketName": "lake"},
        }
        for number in range(5)
    ]
    packed = json.dumps({"Records": [*records, {"x": "y" * padding}]} if padding else {"Records": records}).encode()
    (folder / "AWSLogs").mkdir()
    (folder / "AWSLogs" / "trail.json.gz").write_bytes(gzip.compress(packed))
    (folder / "_digest.json").write_bytes(b"{}")
    spec = proposed(folder, "--name", "audit")
    assert spec["source"]["files"]["recordsPaths"] == ["$.Records"]
    assert fields(spec) == {
        "messageId": "$.eventID",
        "category": "$.eventSource",
        "type": "$.eventName",
        "time": "$.eventTime",
        "payload": "$",
    }


def test_arrays_of_several_names_are_all_named(folder: Path) -> None:
    for number, name in enumerate(("Records", "records")):
        document = {name: [{"id": f"{number}-{one}"} for one in range(3)]}
        (folder / f"{number}.json").write_bytes(json.dumps(document).encode())
    assert sorted(proposed(folder)["source"]["files"]["recordsPaths"]) == ["$.Records", "$.records"]


def test_an_array_within_a_message_is_no_array_of_records(folder: Path) -> None:
    (folder / "1.json").write_bytes(json.dumps({"id": "o-1", "items": [{"sku": "a"}, {"sku": "b"}]}, indent=1).encode())
    files = proposed(folder)["source"]["files"]
    assert (files["format"], "recordsPaths" in files) == ("JSON", False)


@pytest.mark.parametrize(
    ("times", "unit"),
    [(1_772_000_000, "Seconds"), (1_772_000_000_123, "Milliseconds"), (1_772_000_000_123_456, "Microseconds")],
)
def test_times_that_are_numbers_have_a_unit(folder: Path, times: int, unit: str) -> None:
    (folder / "1.jsonl").write_bytes(lines(*({"id": number, "ts_ms": times + number} for number in range(3))))
    assert proposed(folder)["envelope"]["fields"]["time"] == {"path": "$.ts_ms", "unit": unit}


def test_a_known_form_has_its_fields_and_those_that_lack_them_are_told(folder: Path) -> None:
    changes = [
        {"op": "c", "source": {"lsn": 100 + number, "table": "order", "ts_ms": 1_772_441_100_123, "txId": number}}
        | {"after": {"id": number}, "ts_ms": 1_772_441_100_400}
        for number in range(3)
    ]
    (folder / "1.jsonl").write_bytes(lines(*changes, {"ts_ms": 1_772_441_105_000}))
    spec = proposed(folder)
    assert fields(spec) == {
        "messageId": "$.source.lsn",
        "category": "$.source.table",
        "streamId": "$.after.id",
        "type": "$.op",
        "time": "$.source.ts_ms",
        "payload": "$",
    }
    assert spec["envelope"]["fields"]["time"]["unit"] == "Milliseconds"
    said = runner.invoke(app, ["init", str(folder)]).stderr
    assert "1 of 4 sampled would be dead letters: a required field is absent" in said


def test_the_record_within_a_record_is_unwrapped_and_takes_from_around_it_what_it_lacks(folder: Path) -> None:
    inner = [{"kind": ["Placed", "Paid"][number % 2], "orderId": f"o-{number % 2}"} for number in range(4)]
    said = [
        {"Type": "Notification", "MessageId": f"m-{number}", "TopicArn": "arn:aws:sns:eu-west-1:1:orders"}
        | {"Message": json.dumps(one), "Timestamp": f"2026-03-0{number + 1}T10:00:00.000Z"}
        for number, one in enumerate(inner)
    ]
    queued = [{"ReceiptHandle": "r", "Body": json.dumps(one)} for one in said]
    (folder / "1.jsonl").write_bytes(lines(*queued, {"ReceiptHandle": "r"}))
    envelope = proposed(folder)["envelope"]
    assert envelope["unwrap"] == [
        {"path": "$.Body", "encoding": "Text"},
        {"path": "$.Message", "encoding": "Text"},
    ]
    assert envelope["fields"] == {
        "messageId": {"path": "$.MessageId", "in": "Outer"},
        "category": {"value": "orders"},
        "streamId": {"path": "$.orderId"},
        "type": {"path": "$.kind"},
        "time": {"path": "$.Timestamp", "in": "Outer"},
        "payload": {"path": "$"},
    }
    shown = runner.invoke(app, ["init", str(folder)]).stderr.splitlines()
    assert shown[1].split()[:3] == ["m-0", "orders-o-0", "Placed"]
    assert shown[4:] == ["1 of 5 sampled would be dead letters: a required field, or the record within, is absent"]


def test_a_native_record_in_base64_needs_no_fields(folder: Path) -> None:
    native = [{"messageId": f"m{number}", "streamName": "order-1", "payload": {}} for number in range(3)]
    packed = [{"partitionKey": "1", "data": b64encode(json.dumps(one).encode()).decode()} for one in native]
    (folder / "1.jsonl").write_bytes(lines(*packed))
    spec = proposed(folder)
    assert spec["envelope"] == {"format": "Native", "unwrap": [{"path": "$.data", "encoding": "Base64"}]}
    assert runner.invoke(app, ["init", str(folder)]).stderr.splitlines()[1].split()[:2] == ["m0", "order-1"]


def test_names_that_paths_must_quote_are_quoted(folder: Path) -> None:
    (folder / "1.jsonl").write_bytes(lines(*({"it's": {"Event Id": f"e-{number}"}} for number in range(3))))
    assert fields(proposed(folder))["messageId"] == r"$['it\'s']['Event Id']"


def test_lines_of_text_are_payloads(folder: Path) -> None:
    (folder / "app.log").write_bytes(b"10:00 started\n10:01 stopped\n")
    spec = proposed(folder)
    assert spec["source"]["files"]["format"] == "Text"
    assert fields(spec) == {"category": "orders"}


def test_compressed_files_are_read_by_their_first_bytes_and_told(folder: Path) -> None:
    packers = [*PACKERS.values(), lambda content: skipped(b"x") + PACKERS["zstd"](content), bytes]
    for number, (pack, order) in enumerate(zip(packers, orders(5), strict=True)):
        (folder / f"{number}.gz").write_bytes(pack(lines(order)))
    result = runner.invoke(app, ["init", str(folder)])
    assert result.exit_code == 0, result.output
    compressed = "(1 bzip2, 1 gzip, 2 zstd, read unpacked)"
    assert f"from a sample: 5 records, 5 of the folder's files {compressed}." in result.stdout


def test_records_without_a_unique_field_are_identified_by_their_places(folder: Path) -> None:
    (folder / "1.jsonl").write_bytes(lines(*({"id": 1, "n": number} for number in range(3))))
    assert fields(proposed(folder))["messageId"] == "Place"
    said = runner.invoke(app, ["init", str(folder)])
    assert "# no field is there, and differs, in all 3 records: where a record begins" in said.stdout
    assert "(its place)" in said.stderr
    assert "duplicates" not in said.stderr


def refused(folder: Path, *options: str) -> str:
    """Why a folder gives no manifest."""
    result = runner.invoke(app, ["init", str(folder), *options])
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


@pytest.mark.parametrize("content", [b"Obj\x01\x04\x14avro.codec\x08null\x00", b"PAR1\x15\x00", "[1]".encode("utf-16")])
def test_files_that_are_no_text_give_no_stream_of_text(folder: Path, content: bytes) -> None:
    (folder / "events").write_bytes(content)
    assert "events of " in refused(folder)


def test_a_path_that_is_no_folder_is_told(folder: Path) -> None:
    file = folder / "orders.jsonl"
    file.write_bytes(lines(*orders()))
    assert f"{file} is a file: name the folder that has it" in refused(file)
    assert f"there is no folder {folder}/gone" in refused(folder / "gone")
    assert "can't be written: No such file" in refused(folder, "-o", str(folder / "gone" / "s.yaml"))


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("my orders", [], "spec.source.files.uri must be the URI of a folder"),
        ("orders", ["--name", "My Orders"], "metadata.name "),
    ],
)
def test_no_manifest_is_proposed_that_validate_would_refuse(
    tmp_path: Path, name: str, options: list[str], told: str
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "1.jsonl").write_bytes(lines(*orders()))
    assert told in refused(folder, *options)


def test_a_folder_that_gives_no_manifest_is_reported(folder: Path) -> None:
    assert "has no files" in refused(folder)
    (folder / "1.jsonl").write_bytes(b"\x28\xb5\x2f\xfd....")
    assert "have no record" in refused(folder)
    (folder / "1.jsonl").write_bytes(b"")
    assert "have no record" in refused(folder)


def test_a_file_that_exists_is_not_overwritten(folder: Path) -> None:
    (folder / "1.jsonl").write_bytes(lines(*orders()))
    target = folder.parent / "stream.yaml"
    target.write_text("mine")
    assert (runner.invoke(app, ["init", str(folder), "-o", str(target)]).exit_code, target.read_text()) == (2, "mine")


@pytest.mark.parametrize("name", ["on", "y", "no", "true"])
def test_a_folder_may_have_a_name_that_yaml_has_another_meaning_for(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "1.jsonl").write_bytes(lines(*orders()))
    assert fields(proposed(tmp_path / name))["category"] == name


def test_a_target_that_can_have_no_such_name_is_told(folder: Path) -> None:
    result = runner.invoke(app, ["init", str(folder), "-o", str(folder / ("a" * 300))])
    assert result.exit_code == 1
    assert "can't be written: File name too long" in result.stderr
