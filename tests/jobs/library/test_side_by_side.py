"""message-db's behaviour as a table of cases, each run with a real message-db and with a store.

The same calls of write_message fill both; the store's records go through its landing folder and an ingest.
"""

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from messagestore import names
from messagestore.errors import ArgumentError
from messagestore.message import Message
from messagestore.reader import Reader
from messagestore.writer import Writer
from support.ingests import Stream
from support.messagedb import MessageDb, RefusedError

ABSENT = "00000000-0000-0000-0000-000000000000"
NAMES = [
    "account",
    "account-123",
    "account-123+abc",
    "account-123+abc+def",
    "account-",
    "account-+x",
    "account-a-b-c",
    "account:command-7",
    "account+x-1",
    "-1",
    "--",
    "+",
    "",
    "Straße-ü",
    "💶-💶+💶",
    " a - b ",
    None,
]
Arguments = dict[str, Any]


def write(number: int, stream_name: str, kind: str = "Opened", **given: Any) -> Arguments:
    """The arguments of one write_message; ``number`` determines the id."""
    return {"id": str(uuid.UUID(int=number)), "stream_name": stream_name, "type": kind, "data": {"n": number}, **given}


def correlated(number: int, stream_name: str, to: Any) -> Arguments:
    return write(number, stream_name, metadata={"correlationStreamName": to, "other": [1, "é"]})


WRITES: list[Arguments] = [
    *(write(n, f"account-{n % 5}", "Opened" if n % 3 else "Closed") for n in range(1, 31)),
    *(write(n, f"account-{n % 4}+{n}") for n in range(31, 43)),
    *(correlated(n, f"account-{n % 5}", f"transfer-{n}") for n in range(43, 49)),
    correlated(49, "account-1", "transfer"),
    correlated(50, "account-1", "transfer:command-1"),
    correlated(51, "account-1", "transferred-1"),
    correlated(52, "account-1", None),
    write(53, "account-1", metadata={}),
    write(54, "account-1", metadata=["correlationStreamName"]),
    write(55, "account"),
    write(56, "account:command-1"),
    write(57, "accounting-1"),
    write(58, "account-1-x"),
    write(59, "account-"),
    write(60, "account-Straße+ü", data={"text": "💶 \" \\ '"}),
    write(61, "account-9", data=None),
    write(62, "account-9", data=[1, 2.5, "x"]),
    write(63, "account-9", data="text"),
    correlated(64, "account-9", 5),
    correlated(65, "account-9", True),
    correlated(66, "account-9", ["é", {"a": 1}]),
    # Expected versions: of a stream that is missing, of one with messages, of one that is never written.
    write(70, "order-1", expected_version=-1),
    write(71, "order-1", expected_version=-1),
    write(72, "order-1", expected_version=0),
    write(73, "order-1", expected_version=0),
    write(74, "order-1", expected_version=5),
    write(75, "order-1", expected_version=None),
    write(76, "order-1", expected_version=2),
    write(77, "order-2", expected_version=0),
    write(78, "order-2", expected_version=-2),
    write(79, "order-2", expected_version=-1),
    write(80, "order", expected_version=-1),
    write(81, "order", expected_version=1),
    write(82, "order-2+x", expected_version=0),
]


@dataclass
class Sides:
    """What was written to both, and the result of each write: a position, or an error message."""

    message_db: MessageDb
    store: Reader
    theirs: dict[str, int | str]
    ours: dict[str, int | str]


@pytest.fixture(scope="module")
def sides(message_db: MessageDb, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Sides:
    stream = Stream(spark, tmp_path_factory.mktemp("side-by-side"))
    theirs: dict[str, int | str] = {}
    with Writer(f"file://{stream.landing}", batch_records=40) as writer:
        for arguments in WRITES:
            writer.write_message(**arguments)
            theirs[arguments["id"]] = _outcome(lambda given=arguments: message_db.call("write_message", given))
    stream.run(at=datetime.now(UTC))
    ours: dict[str, int | str] = {row["message_id"]: row["position"] for row in stream.messages()}
    ours |= {json.loads(letter["raw"])["messageId"]: letter["detail"] for letter in stream.dead_letters()}
    return Sides(message_db, Reader(stream.table.uri), theirs, ours)


def test_a_write_has_the_position_or_the_error_that_message_db_gives_it(sides: Sides) -> None:
    assert sides.ours == sides.theirs
    assert "Wrong expected version: 5 (Stream: order-1, Stream Version: 1)" in sides.theirs.values()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("function", ["category", "id", "cardinal_id", "is_category"])
def test_names_have_the_parts_that_message_db_finds(message_db: MessageDb, function: str, name: str | None) -> None:
    assert getattr(names, function)(name) == message_db.call(function, {"stream_name": name})


@pytest.mark.parametrize("value", NAMES)
def test_names_have_the_hashes_of_message_db(message_db: MessageDb, value: str | None) -> None:
    assert names.hash_64(value) == message_db.call("hash_64", {"value": value})


STREAM_READS: list[Arguments] = [
    {"stream_name": "account-1"},
    {"stream_name": "account-1", "position": 0},
    {"stream_name": "account-1", "position": 3},
    {"stream_name": "account-1", "position": -7},
    {"stream_name": "account-1", "position": 10_000},
    {"stream_name": "account-1", "position": None},
    {"stream_name": "account-1", "batch_size": 2},
    {"stream_name": "account-1", "position": 2, "batch_size": 2},
    {"stream_name": "account-1", "batch_size": 0},
    {"stream_name": "account-1", "batch_size": -1},
    {"stream_name": "account-1", "batch_size": -2},
    {"stream_name": "account-1", "batch_size": None},
    {"stream_name": "account-9"},
    {"stream_name": "account-Straße+ü"},
    {"stream_name": "account-"},
    {"stream_name": "account-nobody"},
    {"stream_name": "account-1' or true --"},
    {"stream_name": "account"},
    {"stream_name": ""},
    {"stream_name": None},
    {"stream_name": "account-1", "condition": "true"},
    {"stream_name": "account-1", "condition": "type = 'Closed'", "batch_size": 2},
    {"stream_name": "account-1", "condition": "position BETWEEN 1 AND 3 OR type LIKE '%sed' AND NOT position IN (4)"},
    {"stream_name": "account-1", "condition": "metadata IS NULL", "position": 2},
    {"stream_name": "account", "condition": "true"},
    {"stream_name": "account-1", "condition": "true", "batch_size": -2},
]

CATEGORY_READS: list[Arguments] = [
    {"category": "account"},
    {"category": "account", "position": 1},
    {"category": "account", "position": 17},
    {"category": "account", "position": 0},
    {"category": "account", "position": -1},
    {"category": "account", "position": None},
    {"category": "account", "position": 10_000},
    {"category": "account", "batch_size": 3},
    {"category": "account", "position": 20, "batch_size": 3},
    {"category": "account", "batch_size": 0},
    {"category": "account", "batch_size": -1},
    {"category": "account", "batch_size": -2},
    {"category": "account", "batch_size": None},
    {"category": "account:command"},
    {"category": "accounting"},
    {"category": "nothing"},
    {"category": ""},
    {"category": None},
    {"category": "account-1"},
    {"category": "-"},
    {"category": "account", "correlation": "transfer"},
    {"category": "account", "correlation": "transfer", "position": 45},
    {"category": "account", "correlation": "transfer", "batch_size": 2},
    {"category": "account", "correlation": "transfer", "batch_size": -1},
    {"category": "account", "correlation": "transfer:command"},
    {"category": "account", "correlation": "transferred"},
    {"category": "account", "correlation": "nothing"},
    {"category": "account", "correlation": "5"},
    {"category": "account", "correlation": "true"},
    {"category": "account", "correlation": '["é", {"a": 1}]'},
    {"category": "account", "correlation": ""},
    {"category": "account", "correlation": None},
    {"category": "account", "correlation": "transfer-43"},
    {"category": "account-1", "correlation": "transfer-43"},
    *(
        {"category": "account", "consumer_group_member": m, "consumer_group_size": s}
        for s in (1, 2, 3)
        for m in range(s)
    ),
    {"category": "account", "consumer_group_member": 1, "consumer_group_size": 3, "position": 20},
    {"category": "account", "consumer_group_member": 1, "consumer_group_size": 3, "batch_size": 4},
    {"category": "account", "consumer_group_member": 1, "consumer_group_size": 3, "batch_size": -1},
    {"category": "account", "consumer_group_member": 1, "consumer_group_size": 3, "batch_size": 0},
    {"category": "account", "consumer_group_member": 1, "consumer_group_size": 2, "correlation": "transfer"},
    {"category": "account", "consumer_group_member": 32_766, "consumer_group_size": 32_767},
    {"category": "account", "consumer_group_member": 0, "consumer_group_size": 32_768},
    {"category": "account", "consumer_group_member": None, "consumer_group_size": 2},
    {"category": "account", "consumer_group_member": 0, "consumer_group_size": None},
    {"category": "account", "consumer_group_member": 0},
    {"category": "account", "consumer_group_size": 2},
    {"category": "account", "consumer_group_member": 0, "consumer_group_size": 0},
    {"category": "account", "consumer_group_member": -1, "consumer_group_size": 2},
    {"category": "account", "consumer_group_member": -1, "consumer_group_size": 0},
    {"category": "account", "consumer_group_member": 2, "consumer_group_size": 2},
    {"category": "account", "consumer_group_member": 3, "consumer_group_size": 2},
    {"category": "account", "consumer_group_member": 3, "consumer_group_size": 2, "correlation": "a-1"},
    {"category": "account", "condition": "true"},
    {"category": "account", "condition": "global_position % 3 = 0 AND type <> 'Closed'", "batch_size": 3},
    {"category": "account", "condition": "stream_name > 'account-2' OR lower(type) = 'closed'", "position": 9},
    {"category": "account", "condition": "position > 1", "consumer_group_member": 1, "consumer_group_size": 2},
    {"category": "account", "condition": "true", "consumer_group_member": 3, "consumer_group_size": 2},
    {"category": "order"},
]

LAST_READS: list[Arguments] = [
    {"stream_name": "account-1"},
    {"stream_name": "account-1", "type": "Closed"},
    {"stream_name": "account-1", "type": "Opened"},
    {"stream_name": "account-1", "type": "opened"},
    {"stream_name": "account-1", "type": ""},
    {"stream_name": "account-1", "type": None},
    {"stream_name": "account-nobody"},
    {"stream_name": "account"},
    {"stream_name": ""},
    {"stream_name": None},
]

VERSION_READS: list[Arguments] = [
    {"stream_name": name} for name in ("account-1", "account-", "account", "order-1", "order-2+x", "nothing", "", None)
]

READS = [
    (function, arguments)
    for function, cases in {
        "get_stream_messages": STREAM_READS,
        "get_category_messages": CATEGORY_READS,
        "get_last_stream_message": LAST_READS,
        "stream_version": VERSION_READS,
    }.items()
    for arguments in cases
]


@pytest.mark.parametrize(("function", "arguments"), READS, ids=[f"{f}-{a}" for f, a in READS])
def test_reads_find_what_message_db_finds(sides: Sides, function: str, arguments: Arguments) -> None:
    theirs = _outcome(lambda: _comparable(sides.message_db.call(function, arguments)))
    ours = _outcome(lambda: _comparable(_as_set(function, getattr(sides.store, function)(**arguments))))

    assert ours == theirs
    if function != "stream_version":
        assert _outcome(lambda: _ids(getattr(sides.store.arrow, function)(**arguments))) == _outcome_ids(theirs)


def test_a_call_without_names_takes_the_arguments_in_the_same_order(sides: Sides) -> None:
    ours = list(sides.store.get_category_messages("account", 5, 7, "transfer", 1, 2))

    named = ("category", "position", "batch_size", "correlation", "consumer_group_member", "consumer_group_size")
    given = dict(zip(named, ("account", 5, 7, "transfer", 1, 2), strict=True))
    assert _comparable(ours) == _comparable(sides.message_db.call("get_category_messages", given))


@pytest.mark.parametrize(
    "parts",
    [("stream",), ("type",), ("stream", "type"), ("type", "stream"), ("category", "type"), ("type", "category")],
    ids="_".join,
)
def test_summaries_have_the_counts_of_message_db(sides: Sides, parts: tuple[str, ...]) -> None:
    ours = [[*share.values, share.messages, share.percent] for share in sides.store.summary(parts)]

    assert ours == sides.message_db.view(f"{'_'.join(parts)}_summary")


def _outcome(call: Any) -> Any:
    """What a call returns, or its error message."""
    try:
        return call()
    except (ArgumentError, RefusedError) as refusal:
        return f"refused: {refusal}" if not str(refusal).startswith("Wrong") else str(refusal)


def _as_set(function: str, found: Any) -> Any:
    """SQL returns a set where Python returns a message or None."""
    if function != "get_last_stream_message":
        return found
    return [] if found is None else [found]


def _ids(rows: pa.Table) -> list[str]:
    return rows["message_id"].to_pylist()


def _outcome_ids(outcome: Any) -> Any:
    return outcome if isinstance(outcome, str) else [message["id"] for message in outcome]


def _comparable(found: Any) -> Any:
    """Messages of both sides in the same form; other values are unchanged."""
    if found is None or isinstance(found, int):
        return found
    return [_values(vars_of(one) if isinstance(one, Message) else one) for one in found]


def vars_of(message: Message) -> dict[str, Any]:
    shared = ("id", "stream_name", "type", "position", "global_position", "data", "metadata")
    return {name: getattr(message, name) for name in shared}


def _values(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message without its time; data and metadata as JSON values, as jsonb formats its text differently."""
    json_values = {name: message[name] and json.loads(message[name]) for name in ("data", "metadata")}
    return {**{name: value for name, value in message.items() if name != "time"}, **json_values}
