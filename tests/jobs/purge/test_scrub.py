"""Scrubbing removes only what the policy names."""

import hashlib
import hmac
import json
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from messagestore_core.contract.purge import Archive, Match, Rule, Scrub
from messagestore_core.store.audit import read_audit
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.handle import Store
from messagestore_jobs.purge.scrub import scrubbed
from support.keys import KEY, VARIABLE
from support.purges import Said, archived_positions, erase, files_with, purge
from support.stores import START, add_dead_letters, make_store, message, stored

pytestmark = pytest.mark.usefixtures("compiled")

DAY = timedelta(days=1)
NOW = START + 3 * DAY


def mac(text: str) -> bytes:
    return b'"' + hmac.new(KEY.encode(), text.encode(), hashlib.sha256).hexdigest().encode() + b'"'


R, D, H = "Redact", "Drop", "Hash"
CASES: list[tuple[str, tuple[str, ...], bytes, bytes | None]] = [
    (R, ("$.a",), b'{"a":1.10,"b":1E2}', b'{"a":"[redacted]","b":1E2}'),
    (R, ("$.a.b", "$.c[1]"), b'{ "a" : {"b":"x\\u0041"},\n "c":[1, {"d":2} ,3] }',
     b'{ "a" : {"b":"[redacted]"},\n "c":[1, "[redacted]" ,3] }'),
    (R, ("$['a b']", "$.none"), b'{"a b":[1],"n":9007199254740993.0}', b'{"a b":"[redacted]","n":9007199254740993.0}'),
    (R, ("$.a",), b'{"a":null}', b'{"a":null}'),
    (R, ("$.a",), b'{"a":1,"a":2}', b'{"a":"[redacted]","a":"[redacted]"}'),
    (R, ("$.a", "$.a.b"), b'{"a":{"b":1}}', b'{"a":"[redacted]"}'),
    (R, ("$",), b' [1] ', b' "[redacted]" '),
    (R, ("$.a",), b'[1]', b'[1]'),
    (R, ("$[0]",), '["é\\"]",2]'.encode(), b'["[redacted]",2]'),
    (R, ("$.a",), b"no json", None),
    (R, ("$.a",), b'{"a":1}{"a":2}', None),
    (R, ("$.a",), b"", None),
    (D, ("$.a",), b'{"a":1}', b"{}"),
    (D, ("$.a",), b'{"a":1, "b":2}', b'{"b":2}'),
    (D, ("$.b",), b'{"a":1 , "b":2}', b'{"a":1}'),
    (D, ("$.b",), b'{"a":1, "b":2, "c":3}', b'{"a":1, "c":3}'),
    (D, ("$.a", "$.b"), b'{"a":1, "b":"}", "c":3}', b'{"c":3}'),
    (D, ("$.b", "$.c"), b'{"a":{"x":","} ,"b":[2], "c":3 }', b'{"a":{"x":","} }'),
    (D, ("$.a", "$.b"), b'{ "a":1, "b":2 }', b"{  }"),
    (D, ("$.a", "$.c"), b'{"a":1,"b":2,"c":3}', b'{"b":2}'),
    (D, ("$.l[0]", "$.l[2].x"), b'{"l":[1,2,{"x":1,"y":2}]}', b'{"l":[null,2,{"y":2}]}'),
    (D, ("$.a",), b'{"a":null,"b":1}', b'{"b":1}'),
    (D, ("$",), b'{"a":1}', None),
    (H, ("$.a", "$.b"), b'{"a":"x\\u0041","b":1.10,"c":"z"}',
     b'{"a":' + mac("xA") + b',"b":' + mac("1.10") + b',"c":"z"}'),
]  # fmt: skip


def test_a_scrub_of_payload_paths_leaves_every_other_byte(spark: SparkSession) -> None:
    for method in (R, D, H):
        for paths in sorted({case[1] for case in CASES if case[0] == method}):
            cases = [case for case in CASES if case[:2] == (method, paths)]
            rows = spark.createDataFrame([(bytearray(case[2]),) for case in cases], "payload binary").coalesce(1)
            what = Scrub(payload_paths=paths, method=method)
            given, nothing = VARIABLE if method == H else "[redacted]", F.array().cast("array<string>")
            column = scrubbed(F.col("payload"), what, given, "payload", nothing)
            found = [row[0] if row[0] is None else bytes(row[0]) for row in rows.select(column).collect()]
            assert found == [case[3] for case in cases], (method, paths)


def test_a_row_stays_and_says_when_it_was_scrubbed(spark: SparkSession, tmp_path: Path) -> None:
    more = {"metadata": '{"user":"Ann","n":1}', "result": b'{"to":"Ann"}', "error": "no Ann"}
    rows = [
        message(0, payload=b'{"who":"Ann","n":1.10}', headers={"X-Customer": "42", "x-other": "1"}, **more),
        message(1, payload=b"plain Ann", headers={"x-customer": "42"}, content_type="text/plain"),
        message(2, payload=None),
        message(3, payload=b'{"who":"Bob"}', stream_name="order-2", position=0),
    ]
    table = make_store(tmp_path / "store", rows)
    totals, before = last_note(Store(table.uri)).totals, stored(table.uri)
    said = Said()
    task = {
        "rules": (Rule(name="one", match=Match(stream_names=("order-1",))),),
        "action": "Scrub",
        "scrub": Scrub(payload_paths=("$.who",), headers=("X-Customer",)),
        "archive": Archive(uri=f"file://{tmp_path}/archive"),
    }
    outcome = purge(spark, table, NOW, said=said, **task)
    assert (outcome.purge.scrubbed, outcome.purge.purged, outcome.purge.archived) == (3, 0, 3)
    payload = b'{"who":"[redacted]","n":1.10}'
    said_of = {"scrubbed_at": NOW, "scrubs": ["Redact payload $.who", "Redact header x-customer"]}
    expected = [
        {**before[0], "payload": payload, "payload_size": len(payload), **said_of,
         "payload_sha256": hashlib.sha256(payload).hexdigest(),
         "headers": {"X-Customer": "[redacted]", "x-other": "1"}},
        {**before[1], "payload": None, "payload_size": None, "payload_sha256": None, **said_of,
         "headers": {"x-customer": "[redacted]"}},
        {**before[2], **said_of},
        before[3],
    ]  # fmt: skip
    assert stored(table.uri) == expected
    assert said.lines == ["1 payloads are no JSON: the scrub removed them whole"]
    assert archived_positions(f"file://{tmp_path}/archive") == [0, 1, 2]
    assert last_note(Store(table.uri)).totals == totals
    assert [(row["action"], row["counts"]["scrubbed"]) for row in read_audit(Store(table.uri))] == [("Scrub", 3)]

    again = purge(spark, table, NOW + DAY, run="purge-2", **task)
    assert again.preview.messages == 0
    assert stored(table.uri) == expected

    # A later run also scrubs what the policy names since then, and what it did not reach before.
    add_dead_letters(table.uri, [{"raw": b'{"messageId":"m0"}', "failed_at": NOW}, {"raw": b"m00", "failed_at": NOW}])
    wider = Scrub(
        payload_paths=("$.who", "$.n"), metadata_paths=("$.user",), result_paths=("$.to",), headers=("x-other",),
        error=True, dead_letters=True,
    )  # fmt: skip
    purge(spark, table, NOW + 2 * DAY, run="purge-3", **{**task, "scrub": wider})
    first, second = stored(table.uri)[:2]
    assert first["payload"] == b'{"who":"[redacted]","n":"[redacted]"}'
    assert (first["metadata"], first["result"]) == ('{"user":"[redacted]","n":1}', b'{"to":"[redacted]"}')
    assert (first["error"], second["error"]) == ("[redacted]", None)
    assert first["headers"] == {"X-Customer": "[redacted]", "x-other": "[redacted]"}
    assert first["scrubbed_at"] == NOW + 2 * DAY
    assert Store(table.uri).table("dead_letters").to_pyarrow_table()["raw"].to_pylist() == [b"m00"]
    # Two policies over the same messages don't scrub them again and again.
    for at, what in ((3, task["scrub"]), (4, wider)):
        assert purge(spark, table, NOW + at * DAY, run=f"purge-{at}", **{**task, "scrub": what}).preview.messages == 0


def test_a_scrub_hashes_or_drops_headers(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_store(tmp_path / "store", [message(0, headers={"a": "1", "b": "2"})])
    everything = (Rule(name="all", max_messages_per_stream=0),)
    hashed = {
        "rules": everything,
        "action": "Scrub",
        "scrub": Scrub(headers=("a",), method=H, key_environment=VARIABLE),
    }
    with monkeypatch.context() as without:
        without.delenv(VARIABLE)
        with pytest.raises(RunFailedError, match=VARIABLE):
            purge(spark, table, NOW, **hashed)
    purge(spark, table, NOW, **hashed)
    assert stored(table.uri)[0]["headers"] == {"a": json.loads(mac("1")), "b": "2"}
    assert stored(table.uri)[0]["payload"] == b'{"n":0}'
    # A hashed value is not hashed again when the policy names more.
    both = Scrub(headers=("a", "b"), method=H, key_environment=VARIABLE)
    purge(spark, table, NOW + DAY, run="purge-2", **{**hashed, "scrub": both})
    assert stored(table.uri)[0]["headers"] == {"a": json.loads(mac("1")), "b": json.loads(mac("2"))}


def test_a_claim_checked_payload_is_rewritten(spark: SparkSession, tmp_path: Path) -> None:
    payloads = tmp_path / "store" / "payloads"
    uri = f"file://{payloads}/{0:020}"
    given = {"payload": None, "payload_uri": uri, "payload_size": 13, "headers": {"a": "of-ann"}}
    table = make_store(tmp_path / "store", [message(0, **given)])
    payloads.mkdir()
    (payloads / f"{0:020}").write_bytes(b'{"who":"Ann"}')
    purge(
        spark, table, NOW, rules=(Rule(name="all", max_messages_per_stream=0),), action="Scrub",
        scrub=Scrub(payload_paths=("$.who",)),
    )  # fmt: skip
    row = stored(table.uri)[0]
    content = Path(row["payload_uri"].removeprefix("file://")).read_bytes()
    assert content == b'{"who":"[redacted]"}'
    assert (row["payload_size"], row["payload_sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert len(list(payloads.iterdir())) == 1
    purge(
        spark, table, NOW + DAY, run="purge-2", rules=(Rule(name="all", max_messages_per_stream=0),), action="Scrub",
        scrub=Scrub(payload_paths=("$.who",), headers=("a",)), erase_within=timedelta(0),
    )  # fmt: skip
    erase(spark, table, NOW + DAY)
    assert Path(stored(table.uri)[0]["payload_uri"].removeprefix("file://")).read_bytes() == content
    assert files_with(table, b"of-ann") == []
    assert [row["action"] for row in read_audit(Store(table.uri))] == ["Scrub", "Scrub", "Erase", "Erase"]
    assert len(list(payloads.iterdir())) == 1
