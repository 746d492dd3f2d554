"""Hostile records: odd, broken and huge, in each format, and compressed in files that may be broken, too."""

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from random import Random

from support.kafkatopics import Record
from support.packing import bzip2, zstd

NATIVE = (
    *("messageId", "streamName", "streamId", "category", "type", "typeNamespace", "typeRevision", "correlationId"),
    *("causationId", "replyTo", "sequenceId", "sequenceNumber", "sequenceSize", "sequenceEnd", "contentType"),
    *("payloadEncoding", "schemaVersion", "ttl", "expiresAt", "expectedVersion", "status", "error", "time"),
    *("payloadBase64", "position", "globalPosition", "metadata", "result", "headers", "payload", "other"),
)
EVENT = (
    *("specversion", "id", "source", "type", "subject", "time", "streamname", "correlationid", "causationid"),
    *("expirytime", "datacontenttype", "data", "data_base64", "Other", "", "a-b", "dataschema", "sequence"),
)
TEXTS = (
    *("", " ", "a", "order-1", "-", "-1", "a-", "a+b-c", "null", "0", "1", "-1", "true", "1e3", "COMPLETED", "FAILED"),
    *("2026-01-05T11:00:00Z", "2026-02-30T00:00:00Z", "0000-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z"),
    *("2016-12-31T23:59:60Z", "2026-01-05T11:00:00+99:99", "P1D", "PT0S", "P99999999999W", "-P1D", "P1Y", "AP8=", "A"),
    *(
        "application/json",
        "text/plain; charset=\x7f",
        "application/cloudevents+json",
        "\u0000",
        "\u2028",
        "\ufeff",
        "é",
    ),
    *(
        "\U0001f600",
        "a\nb",
        "a\tb",
        "${env:HOME}",
        "'; DROP TABLE messages; --",
        "../../etc/passwd",
        "file:///etc/passwd",
    ),
    *("x" * 1_024, "x" * 1_025, "é" * 513, "_messagestore", "kafka-key", "x-original-position", "9" * 400),
)
VALUES = (
    *(b"null", b"true", b"false", b"0", b"-0", b"1", b"-1", b"1.0", b"1e999", b"-1E-999", b"9223372036854775808"),
    *(b"9" * 5_000, b"0." + b"1" * 5_000, b"1e99999999999", b"01", b"+1", b".5", b"1.", b"0x1F", b"NaN", b"Infinity"),
    *(b'"\\u0000"', b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\x41"', b'"\\u12"', b'"\t"', b'"\xff"'),
    *(
        b'"\xed\xa0\x80"',
        b'"\xc0\x80"',
        b'"\xf5\x80\x80\x80"',
        b"{}",
        b"[]",
        b"[[]]",
        b"[,]",
        b"[1,]",
        b'{"a"}',
        b"{,}",
    ),
    *(b'{"":0}', b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b"[1 2]", b"'a'", b"/**/1", b"\xef\xbb\xbf1", b"undefined"),
)
BYTES = (
    *(b"\x00", b"\r", b"\n", b"\x1f\x8b", b"\xff", b"\xc3", b"\xef\xbb\xbf", b'"', b"\\", b"{", b"}", b"[", b"]", b":"),
    *(b",", b"\xfe\xff", b"\xe2\x80\xa8", b"\r\n", b" ", b'"a":', b"\x7f", b"\xf0\x9f", b"/*", b"#"),
)

CONTENT_TYPES = (
    *(b"application/cloudevents+json", b" Application/CloudEvents+JSON ;a=b", b"application/cloudevents+avro"),
    *(b"application/cloudevents-batch+json", b"application/json", b"text/plain; charset=\xff", b"", b"\x00"),
)

PRODUCED = 900_000
"""The most bytes that a producer sends by default."""


class HostileRecords:
    """One sequence of records for each seed. Ids are from a few thousand, so that some repeat."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._made = 0

    def native(self) -> bytes:
        """A line that may be a Native record."""
        return self._record(NATIVE, {"messageId": self._id(), "streamName": self._stream(), "payload": b'{"a":1}'})

    def event(self) -> bytes:
        """A line that may be a CloudEvent."""
        mine = {"specversion": b'"1.0"', "id": self._id(), "source": self._stream(), "type": b'"t"', "data": b"1"}
        return self._record(EVENT, mine)

    def text(self) -> bytes:
        """A line of any text."""
        chosen = self._random.choice((self.native, self.event, self._noise))
        return chosen()

    def document(self) -> bytes:
        """A file that may be one JSON document."""
        records = b",".join(self.native() for _ in range(self._random.randrange(4)))
        return self._mutated(b"[" + records + b"]") if self._random.random() < 0.5 else b"[" + records + b"]"

    def lines(self, line: Callable[[], bytes], count: int) -> bytes:
        """A file of lines."""
        ends = (b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b" \n")
        return b"".join(line() + self._random.choice(ends) for _ in range(count))

    def packed(self, content: bytes) -> bytes:
        """The content in several members of a compression, mostly broken."""
        random = self._random
        pack = random.choice((self._gzip, zstd, bzip2))
        broken: tuple[Callable[[bytes], bytes], ...] = (
            lambda b: b,
            lambda b: b[: random.randrange(len(b))],
            lambda b: b + bytes(random.randrange(99)),
            lambda b: b + random.randbytes(30),
            lambda b: random.randbytes(20) + b,
        )
        if pack == self._gzip:
            broken += (lambda b: b[:-6] + random.randbytes(6), self._flipped, lambda b: b + zlib.compress(b"no gzip"))
        return random.choice(broken)(b"".join(map(pack, self._parts(content))))

    def _gzip(self, content: bytes) -> bytes:
        return gzip.compress(content, self._random.choice((1, 6, 9)), mtime=0)

    def of_kafka(self) -> Record:
        """A record of a topic."""
        random = self._random
        value = random.choice((self.native, self.event, self._noise, lambda: None, lambda: b""))()
        value = value and value[:PRODUCED]
        headers = {self._text() or "a": self._noise() for _ in range(random.choice((0, 0, 1, 3)))}
        if random.random() < 0.3:
            binary = {"specversion": b"1.0", "id": self._id(), "source": self._stream(), "type": b"t"}
            headers |= {f"ce_{name}": text.strip(b'"') for name, text in binary.items() if random.random() < 0.9}
            headers |= {f"ce_{random.choice(EVENT)}": self._text().encode() for _ in range(2)}
        if random.random() < 0.2:
            headers["content-type"] = random.choice(CONTENT_TYPES)
        key = random.choice((None, b"", b"\xff", b"key", random.randbytes(9)))
        return Record(value, key, headers, timestamp=random.choice((0, 1, 1_767_614_400_000, 253_402_300_800_000)))

    def _record(self, names: tuple[str, ...], mine: dict[str, bytes]) -> bytes:
        random = self._random
        self._made += 1
        if self._made % 4_000 == 0:
            return b'{"messageId":"m","streamName":"s","payload":' + self._huge() + b"}"
        if random.random() < 0.05:
            return self._noise()
        members = [(name, value) for name, value in mine.items() if random.random() < 0.98]
        members += [(random.choice(names), self._value()) for _ in range(random.choice((0, 0, 0, 1, 1, 2, 5)))]
        random.shuffle(members)
        line = b"{" + b",".join(json.dumps(name).encode() + b":" + value for name, value in members) + b"}"
        return self._mutated(line) if random.random() < 0.2 else line

    def _huge(self) -> bytes:
        depth = self._random.choice((999, 1_001, 50_000))
        return self._random.choice(
            (
                b"[" * depth + b"]" * depth,
                b'{"a":' * depth + b"1" + b"}" * depth,
                b"{" + b",".join(b'"%d":0' % i for i in range(100_001)) + b"}",
                b"[" + b",".join([b"0"] * 300_000) + b"]",
                b'"' + b"x" * 1_000_000 + b'"',
                b"9" * 1_000_000,
            )
        )

    def _value(self) -> bytes:
        random, kind = self._random, self._random.random()
        if kind < 0.5:
            return json.dumps(self._text(), ensure_ascii=random.random() < 0.5).encode()
        if kind < 0.9:
            return random.choice(VALUES)
        depth = random.randrange(5)
        return random.choice((b"[" * depth + b"1" + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth))

    def _text(self) -> str:
        return self._random.choice(TEXTS)

    def _id(self) -> bytes:
        return b'"id-%d"' % self._random.randrange(50_000)

    def _stream(self) -> bytes:
        return b'"order-%d"' % self._random.randrange(50)

    def _noise(self) -> bytes:
        return self._random.choice((self._random.randbytes(self._random.randrange(60)), self._random.choice(VALUES)))

    def _mutated(self, record: bytes) -> bytes:
        random = self._random
        for _ in range(random.randrange(1, 4)):
            at = random.randrange(len(record) + 1)
            to = min(len(record), at + random.randrange(12))
            record = random.choice(
                (
                    record[:at] + random.choice(BYTES) + record[at:],
                    record[:at] + record[to:],
                    record[:to] + record[at:],
                    record[:at] + random.randbytes(3) + record[to:],
                )
            )
        return record

    def _flipped(self, content: bytes) -> bytes:
        at = self._random.randrange(len(content))
        return content[:at] + bytes([content[at] ^ 1 << self._random.randrange(8)]) + content[at + 1 :]

    def _parts(self, content: bytes) -> Iterator[bytes]:
        at = 0
        for _ in range(self._random.randrange(3)):
            to = self._random.randrange(at, len(content) + 1)
            yield content[at:to]
            at = to
        yield content[at:]
