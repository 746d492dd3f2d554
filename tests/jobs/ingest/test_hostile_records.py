"""Any record becomes one message, one duplicate or one dead letter, and the batch goes on.

MESSAGESTORE_RECORDS and MESSAGESTORE_RECORDS_SEED choose how many records, and which (`make fuzz-records`).
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.records import Envelope, FieldMapping, Unwrap, ValueMapping
from support.hostile_records import HostileRecords
from support.ingests import Row, Stream, adds_up, lines_of, positions_have_no_gap, received_in, record
from support.packing import PACKERS

pytestmark = pytest.mark.usefixtures("compiled")

COUNT = int(os.environ.get("MESSAGESTORE_RECORDS", "10000"))
SEED = int(os.environ.get("MESSAGESTORE_RECORDS_SEED", "16"))
UNWRAPPED = Envelope(
    unwrap=(Unwrap(path="$.body"),),
    add_headers={
        "n": ValueMapping(path="$.n", in_="Outer"),
        "region": ValueMapping(path="$.region", in_="Document"),
        "account": ValueMapping(path="$.of.account", in_="Document"),
    },
)
DOCUMENTS: list[Callable[[bytes], bytes]] = [
    lambda records: b"[" + records + b"]",
    lambda records: b'\x1e{"region":"eu","of":{"Records":[' + records + b'],"account":1}}\n',
    lambda records: b'{"of":{"account":true,"Records":[' + records + b'],"x":[{}]},"region":"eu"}',
]
A_FILE = 1_000
A_RUN = 100_000
TEXT = Envelope(format="Custom", fields={"category": FieldMapping(value="log")})

Make = Callable[[HostileRecords], bytes]


@pytest.mark.parametrize(
    ("share", "line", "settings"),
    [
        pytest.param(0.5, HostileRecords.native, {"max_payload_bytes": 500_000}, id="native"),
        pytest.param(0.3, HostileRecords.event, {"envelope": Envelope(format="CloudEvents")}, id="events"),
        pytest.param(0.15, HostileRecords.text, {"format": "Text", "envelope": TEXT}, id="texts"),
    ],
)
def test_each_line_becomes_one_message_or_one_dead_letter(
    spark: SparkSession, tmp_path: Path, share: float, line: Make, settings: dict[str, Any]
) -> None:
    stream, hostile = Stream(spark, tmp_path, settings), HostileRecords(SEED)
    for number in range(max(1, round(COUNT * share / A_FILE))):
        content = hostile.lines(lambda: line(hostile), A_FILE)
        if number % 4 == 3:
            stream.arrive(f"{number:08}.gz", hostile.packed(content))
        else:
            stream.arrive(f"{number:08}", content)
        if number % (A_RUN // A_FILE) == A_RUN // A_FILE - 1:
            stream.run()
    check_counts(stream, stream.run().totals)
    check_places(stream)


def test_each_element_of_a_document_becomes_one_message_or_one_dead_letter(spark: SparkSession, tmp_path: Path) -> None:
    stream, hostile = Stream(spark, tmp_path, {"format": "JSON"}), HostileRecords(SEED)
    for number in range(round(COUNT * 0.05 / 2)):
        stream.arrive(f"{number:08}.json", hostile.document())
    totals = stream.run().totals
    check_counts(stream, totals)
    assert totals.received == received_in(stream.landing, "JSON"), f"seed {SEED}"


def test_damage_in_documents_of_any_shape_costs_no_other_file(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(SEED)
    stream = Stream(spark, tmp_path, {"format": "JSON", "records_path": ("$.of.Records", "$"), "envelope": UNWRAPPED})
    sound, least = [], Counter[str]()
    for number in range(max(20, COUNT // 100)):
        names = [f"{number}-{n}" for n in range(6)]
        inner = [record(name, payload=nested(draw.choice([1, 900, 1_100]))) for name in names]
        outer = [b'{"n":%d,"body":%s}' % (draw.randrange(9), json.dumps(one.decode()).encode()) for one in inner]
        document = draw.choice(DOCUMENTS)(b",".join(outer[:3])) + draw.choice(DOCUMENTS)(b" , ".join(outer[3:]))
        pack = draw.choice([bytes, bytes, *PACKERS.values()])
        content = pack(document)
        if number % 2:
            content = draw.choice([damaged, cut, doubled])(draw, content)
            if draw.random() < 0.5:
                content = pack(draw.choice([damaged, cut, doubled])(draw, document))
        else:
            fit = [name for name, one in zip(names, inner, strict=True) if len(one) < 2_000]
            sound += fit
            least["dead"] += len(names) - len(fit)
        stream.arrive(f"{number:04}", content)
    totals = stream.run().totals
    assert adds_up(totals), f"seed {SEED}: {totals}"
    assert totals.stored == len(stream.ids())
    assert set(sound) <= set(stream.ids()), f"seed {SEED}"
    assert totals.dead_lettered >= max(1, least["dead"])
    assert positions_have_no_gap(stream.messages())


def damaged(draw: random.Random, content: bytes) -> bytes:
    """Bytes, of which some are others."""
    changed = bytearray(content)
    for _ in range(draw.randrange(1, 4)):
        changed[draw.randrange(len(changed))] = draw.choice(b'{}[]",:\\ \x1e\xff0n')
    return bytes(changed)


def cut(draw: random.Random, content: bytes) -> bytes:
    """The start of some bytes, or what is between two places."""
    end = draw.randrange(len(content))
    return content[draw.choice([0, 0, draw.randrange(end + 1)]) : end]


def doubled(draw: random.Random, content: bytes) -> bytes:
    """Bytes, of which some are there twice."""
    at, to = sorted(draw.choices(range(len(content)), k=2))
    return content[:to] + content[at:]


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def check_counts(stream: Stream, totals: IngestCounts) -> None:
    """Law 1 in numbers."""
    messages, dead_letters = stream.messages(), stream.dead_letters()
    assert adds_up(totals), f"seed {SEED}: {totals}"
    assert (totals.stored, totals.dead_lettered) == (len(messages), len(dead_letters)), f"seed {SEED}"
    assert min(totals.stored, totals.dead_lettered) > COUNT // 500
    assert len({row["message_id"] for row in messages}) == len(messages), f"seed {SEED}"
    assert positions_have_no_gap(messages), f"seed {SEED}"


def check_places(stream: Stream) -> None:
    """Law 1 by place: each record is a message, a dead letter with its own bytes, or a duplicate, and only one."""
    stored, set_aside = Counter(map(place, stream.messages())), {place(row): row for row in stream.dead_letters()}
    told = stored + Counter(list(set_aside))
    lines = {(path.name, at): line for path in stream.landing.iterdir() for at, line in lines_of(path).items()}
    totals = stream.run().totals
    assert totals.received == len(lines), f"seed {SEED}"
    assert max(told.values()) == 1, f"seed {SEED}: {told.most_common(1)} is two things"
    assert told.keys() <= lines.keys(), f"seed {SEED}: {told.keys() - lines.keys()} are no records"
    assert totals.duplicates == len(lines) - len(told), f"seed {SEED}"
    for where, row in set_aside.items():
        assert row["raw"] == lines[where], f"seed {SEED}: {where}"


def place(row: Row) -> tuple[str, int]:
    return row["source"]["uri"].rpartition("/")[2], row["source"]["offset"]
