from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_core import PydanticCustomError

from messagestore_core.contract.base import JsonPath
from messagestore_operator.api.scalars import (
    BootstrapServers,
    Cron,
    Duration,
    Endpoint,
    Quantity,
    SourceUri,
    StoreUri,
    Time,
    TimeZone,
)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("P30D", timedelta(days=30)),
        ("PT15M", timedelta(minutes=15)),
        ("P1DT2H3M4.5S", timedelta(days=1, hours=2, minutes=3, seconds=4.5)),
        ("PT36H", timedelta(hours=36)),
        ("P99999DT999999H", timedelta(days=99_999, hours=999_999)),
    ],
)
def test_a_duration_is_days_or_smaller(text: str, meaning: timedelta) -> None:
    assert Duration.parse(text).timedelta == meaning


@pytest.mark.parametrize(
    "text", ["P1M", "P1Y", "P1W", "PT0S", "P0D", "-P1D", "P", "PT", "P1DT", "1d", "PT1", "P१D", "P100000D"]
)
def test_a_duration_of_months_or_years_or_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["P100000D", "PT1000000H", "PT100000000M", "PT1000000000S"])
def test_a_duration_of_centuries_is_refused(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="at most 99999 days"):
        Duration.parse(text)


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ("1Gi", 2**30),
        ("16Mi", 16 * 2**20),
        ("1.5Gi", 3 * 2**29),
        ("10k", 10_000),
        (1048576, 2**20),
        ("999Pi", 999 * 2**50),
    ],
)
def test_a_quantity_is_a_number_of_bytes(value: Any, size: int) -> None:
    assert Quantity.parse(value).bytes == size


@pytest.mark.parametrize("value", ["0", 0, -1, True, 1.5, "1 Gi", "1GB", "0.5Gi", "", "1000Pi", None])
def test_what_is_no_size_is_refused(value: Any) -> None:
    with pytest.raises(PydanticCustomError):
        Quantity.parse(value)


def test_a_time_keeps_its_text_and_knows_its_instant() -> None:
    time = Time.parse("2026-01-05T08:00:00.25Z")
    assert time == "2026-01-05T08:00:00.25Z"
    assert time.datetime == datetime(2026, 1, 5, 8, 0, 0, 250000, tzinfo=UTC)
    assert Time.of(time.datetime).datetime == time.datetime


@pytest.mark.parametrize(
    "text",
    [
        "2026-02-30T00:00:00Z",
        "2026-01-05",
        "2026-01-05T08:00:00+01:00",
        "2026-01-05T24:00:00Z",
        "2026-01-05T08:00:00Z\n",
    ],
)
def test_a_time_is_in_utc_and_exists(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        Time.parse(text)


@pytest.mark.parametrize("text", ["$", "$.a", "$.headers['X-Id']", "$.lines[0].note", r"$['it\'s']", "$.a-b"])
def test_a_path_has_names_and_places(text: str) -> None:
    assert JsonPath.parse(text) == text


@pytest.mark.parametrize("text", ["", "a", "$..a", "$.*", "$[*]", "$[?(@.a)]", '$["a"]', "$.a.", "$[-1]", "$['it's']"])
def test_a_path_has_nothing_else(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        JsonPath.parse(text)


@pytest.mark.parametrize("text", ["* * * *", "* * * * * *", "@daily", "61 * * * *", "0 0 30 2 *", "every day", ""])
def test_a_cron_expression_has_five_fields_and_fires(text: str) -> None:
    with pytest.raises(PydanticCustomError):
        Cron.parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 25 * * *", "25 is no hour, of which there are 0 to 23"),
        ("*/5 8-17 0 * *", "0 is no day of the month"),
        ("0 0 * * FRY", "FRY is no day of the week"),
        ("0 0 31 2,4 *", "there is no such day"),
    ],
)
def test_it_is_said_why_a_cron_expression_never_fires(text: str, why: str) -> None:
    with pytest.raises(PydanticCustomError, match=why):
        Cron.parse(text)


@pytest.mark.parametrize("text", ["R 3 * * *", "R/2 * * * *", "0 0 1 1 R", "H 3 * * *", "H/5 * * * *", "0 0 * r *"])
def test_a_cron_expression_has_nothing_at_random(text: str) -> None:
    with pytest.raises(PydanticCustomError, match="nothing at random"):
        Cron.parse(text)


@pytest.mark.parametrize("text", ["*/5 8-17/2 1,15 JAN-MAR mon", "0 0 L * *", "0 0 * * L5", "59-0 23-2 * * 0,7"])
def test_a_cron_expression_has_ranges_steps_lists_names_and_last_days(text: str) -> None:
    assert Cron.parse(text) == text


def test_a_time_zone_is_one_that_exists() -> None:
    assert TimeZone.parse("Europe/Vienna") == "Europe/Vienna"
    with pytest.raises(PydanticCustomError, match="there is none of this name"):
        TimeZone.parse("Europe/Atlantis")


@pytest.mark.parametrize(
    "uri",
    [
        "s3a://lake/orders",
        "s3://lake/orders/",
        "gs://lake/a/b",
        "hdfs://namenode:8020/a",
        "abfss://container@account.dfs.core.windows.net/a",
        "file:///data/orders",
        # Only local paths are decoded.
        "s3a://lake/a%20b",
        "file:///data/100%/a%zz",
    ],
)
def test_a_store_lies_where_hadoop_reaches(uri: str) -> None:
    assert StoreUri.parse(uri) == uri


@pytest.mark.parametrize(
    "uri",
    [
        "s3a://key:secret@lake/orders",
        "s3a://lake",
        "s3a://lake/",
        "file:///",
        "file://host/data",
        "/data/orders",
        "http://lake/orders",
        "s3a://lake/*.json",
        "s3a://lake/a?b",
        "s3a://lake/a/../b",
        "s3a://lake//a",
        "s3a://lake/a b",
        "file:///data/a%20b",
        "file:///data/a%C3%bcb/c",
    ],
)
def test_a_uri_that_is_no_plain_folder_of_a_store_is_refused(uri: str) -> None:
    with pytest.raises(PydanticCustomError):
        StoreUri.parse(uri)


def test_a_whole_bucket_may_be_read() -> None:
    assert SourceUri.parse("s3a://landing/") == "s3a://landing/"


def test_addresses_of_servers() -> None:
    assert Endpoint.parse("http://s3.storage.svc:7070")
    assert BootstrapServers.parse("a.kafka:9092,b.kafka:9092")
    for wrong in ("s3.storage.svc", "http://user:pass@host", "http://host/path"):
        with pytest.raises(PydanticCustomError):
            Endpoint.parse(wrong)
    for wrong in ("kafka", "a:9092, b:9092", "kafka:port"):
        with pytest.raises(PydanticCustomError):
            BootstrapServers.parse(wrong)
