"""Whatever a stranger writes is taken with its meaning, or refused in words: never another error, never another value.

By default a few of the texts, the same ones each time; `make fuzz` reads TEXTS of them at random.
"""

import json
import os
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from messagestore_core.clock import in_utc
from messagestore_core.contract.base import CheckedText, JsonPath
from messagestore_core.predicate.literals import read_interval, read_timestamp
from messagestore_operator.api.common import Schedule
from messagestore_operator.api.scalars import Cron, Duration, Quantity, Time, TimeZone
from messagestore_operator.decide.schedule import latest_time, next_time
from messagestore_operator.manifests.yaml_tree import read_documents

TEXTS = os.environ.get("MESSAGESTORE_TEXTS")
fuzzed = settings(
    max_examples=int(TEXTS or 150),
    derandomize=TEXTS is None,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)


def made_of(*pieces: str, most: int = 12) -> st.SearchStrategy[str]:
    """Texts of some pieces, and any others."""
    return st.lists(st.sampled_from(pieces), max_size=most).map("".join) | st.text(max_size=40)


def taken(kind: type[CheckedText], text: str) -> Any:
    """The text as a kind; None if it is refused in words."""
    try:
        return kind.parse(text)
    except PydanticCustomError as error:
        refusal = error.message()
    assert re.match(r"must be|there is", refusal)
    return None


SECONDS = {"D": 86_400, "H": 3600, "M": 60, "S": 1}


@fuzzed
@given(made_of("P", "T", "D", "H", "M", "S", "W", "Y", "0", "1", "9", "99999", ".", ".5", "-", "+", " ", "\n", "٣"))
def test_a_duration_is_the_sum_of_its_parts(text: str) -> None:
    found = taken(Duration, text)
    if found is not None:
        parts = re.findall(r"([0-9.]+)([DHMS])", text, re.ASCII)
        total = sum((Decimal(number) * SECONDS[unit] for number, unit in parts), Decimal(0))
        assert found.timedelta == timedelta(microseconds=int(total * 1_000_000)) > timedelta(0)
        assert NOW - found.timedelta < NOW < NOW + found.timedelta


UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
UNITS |= {f"{name.upper()}i": 1024 ** (power + 1) for power, name in enumerate("kMGTP")}


@fuzzed
@given(made_of("0", "1", "9", ".", "5", "k", "K", "M", "G", "T", "P", "i", "m", "e3", "-", " ", "\n", "٣", "_", most=6))
def test_a_quantity_is_its_number_times_its_unit(text: str) -> None:
    found = taken(Quantity, text)
    if found is not None:
        number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", text, re.ASCII).groups()
        assert found.bytes == int(Decimal(number) * UNITS[unit]) > 0


FIELDS = st.sampled_from(
    ["*", "0", "30", "*/7", "1-5", "L", "7", "mon", "JAN", "59/2", "1,3", "31", "5-1", "60", "R", "?"]
)


@fuzzed
@given(
    st.lists(FIELDS, min_size=4, max_size=6).map(" ".join) | st.text(max_size=30),
    st.sampled_from(["UTC", "Europe/Vienna", "Australia/Lord_Howe", "America/Havana"]),
    st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)),
)
def test_a_schedule_that_is_taken_has_a_next_time_and_a_latest(text: str, zone: str, naive: datetime) -> None:
    if taken(Cron, text) is not None:
        schedule, now = Schedule.model_validate({"cron": text, "timeZone": zone}), naive.replace(tzinfo=UTC)
        upcoming = next_time(schedule, now)
        assert now < upcoming < now + timedelta(days=366 * 30)
        assert latest_time(schedule, now, upcoming) == upcoming


@fuzzed
@given(made_of("UTC", "Europe", "/", "Vienna", "..", "etc", "passwd", "posix", "right", "\0", "+", "-", "GMT", "1"))
def test_a_time_zone_is_one_of_the_database(text: str) -> None:
    if taken(TimeZone, text) is not None:
        assert next_time(Schedule.model_validate({"cron": "0 0 * * *", "timeZone": text}), NOW) > NOW


DIGITS = ("2026", "0001", "9999", "-", "01", "02", "29", "30", "T", "t", " ", ":", "24", "60", "Z", "+05:00", ".5", "٣")


@fuzzed
@given(made_of(*DIGITS) | st.datetimes().map(lambda at: f"{at.isoformat()}Z"))
def test_a_time_is_the_same_instant_wherever_it_is_read(text: str) -> None:
    found = taken(Time, text)
    if found is not None:
        assert Time.of(found.datetime).datetime == found.datetime == in_utc(read_timestamp(text))
    for read in (read_timestamp, read_interval):
        with suppress(ValueError):
            read(text)


@fuzzed
@given(made_of("$", ".", "a", "_", "[", "]", "0", "9", "'", "\\", "*", "..", "@", "é", "\n"))
def test_a_path_that_is_taken_is_one_that_jobs_take(text: str) -> None:
    from messagestore_core.json_values import steps

    if taken(JsonPath, text) is not None:
        assert isinstance(steps(text), list)


PLAIN = (
    "0",
    "1",
    "8",
    "x",
    "o",
    "b",
    "e",
    "_",
    ".",
    "-",
    "+",
    ":",
    "on",
    "off",
    "no",
    "true",
    "null",
    "~",
    "inf",
    "y",
    "A",
)


@fuzzed
@given(made_of(*PLAIN, most=6))
def test_a_plain_scalar_that_is_taken_is_what_yaml_1_1_reads(text: str) -> None:
    documents, problems = read_documents("a.yaml", f"a: [{text}]\n")
    if problems or not text.isascii() or not documents:
        return
    try:
        theirs = yaml.safe_load(f"a: [{text}]\n")["a"]
    except (yaml.YAMLError, ValueError):
        return
    for own, other in zip(documents[0].data["a"], theirs, strict=True):
        # PyYAML counts in sixties, which kubectl does not.
        if isinstance(other, bool) or (isinstance(other, int) and ":" not in text):
            assert (type(own), own) == (type(other), other)


MARKS = (
    "a",
    ": ",
    "- ",
    "\n",
    "  ",
    "{",
    "}",
    "[",
    "]",
    "'",
    '"',
    "&x ",
    "*x",
    "!!int ",
    "!!binary ",
    "|",
    ">",
    "---\n",
    "<<",
    "#",
    "\t",
    "%",
)


@fuzzed
@given(made_of(*MARKS, "on", "0x1", "1e999", ".nan", "2026-01-01", "kind", most=25))
def test_a_manifest_of_any_text_is_read_or_refused(text: str) -> None:
    documents, problems = read_documents("a.yaml", text)
    assert all(str(problem).startswith("a.yaml") for problem in problems)
    if not problems:
        values = [document.data for document in documents]
        assert json.loads(json.dumps(values, allow_nan=False)) == values


@fuzzed
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=12),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=3),
        max_leaves=8,
    )
)
def test_a_manifest_in_json_means_what_it_says(value: Any) -> None:
    documents, problems = read_documents("a.yaml", json.dumps({"spec": value}))
    assert (problems, documents[0].data) == ([], {"spec": value})
