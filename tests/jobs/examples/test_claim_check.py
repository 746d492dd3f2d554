"""The example of claim checks does what docs/patterns/claim-check.md says, to the byte."""

import base64
import hashlib
import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from messagestore.errors import BrokenMessageError
from messagestore.reader import Reader
from support.local_runs import LocalRuns, lines, render
from support.stores import stored


def test_claim_check(local_run: LocalRuns, tmp_path: Path) -> None:
    work = tmp_path / "claim-check"
    done = local_run.run_text(render("claim-check", tmp_path))
    assert done.exit_code == 0, done.stderr
    given = _given(work / "landing")
    assert {key: len(payload) for key, payload in given.items()} == {
        "d1": 14,
        "d2": 1966,
        "d3": 1472,
        "d4": 1680,
        "d5": 1024,
    }

    rows = {row["message_id"]: row for row in stored(f"file://{work}/deliveries")}
    inline = {key for key, row in rows.items() if row["payload"] is not None}
    assert inline == {"d1", "d5"}
    claims = {key: Path(urlsplit(row["payload_uri"]).path) for key, row in rows.items() if row["payload_uri"]}
    assert {key: path.read_bytes() for key, path in claims.items()} == {key: given[key] for key in ("d2", "d3", "d4")}
    names = sorted(path.name for path in (work / "deliveries/payloads").iterdir())
    assert [name[:20] for name in names] == [f"{n:020}" for n in (2, 3, 4)]
    for key, row in rows.items():
        assert (row["payload_size"], row["payload_sha256"]) == (len(given[key]), hashlib.sha256(given[key]).hexdigest())

    assert _read(f"file://{work}/deliveries") == given
    assert done.status("ReplayJob/deliveries-to-files")["progress"]["replayed"] == 5
    assert _payloads(lines(work / "sent")) == given
    assert done.status("ReplayJob/deliveries-to-a-stream")["progress"]["replayed"] == 5
    whole = stored(f"file://{work}/deliveries-in-one-piece")
    assert {row["message_id"]: row["payload"] for row in whole} == given
    assert {row["payload_uri"] for row in whole} == {None}

    claims["d3"].write_bytes(given["d3"] + b"x")
    with pytest.raises(BrokenMessageError, match="d3"):
        _read(f"file://{work}/deliveries")
    told: list[str] = []
    with Reader(f"file://{work}/deliveries", on_broken=lambda error: told.append(error.message_id)) as store:
        assert [message.message_id for message in store.get_messages()] == ["d1", "d2", "d4", "d5"]
    assert told == ["d3"]


def _given(landing: Path) -> dict[str, bytes]:
    found = _payloads(lines(landing))
    assert len(found) == 5
    return found


def _payloads(records: list[str]) -> dict[str, bytes]:
    """The payload's bytes by message id; a JSON payload is the text at the end of its record."""
    found = {}
    for line in records:
        record = json.loads(line)
        if "payloadBase64" in record:
            payload = base64.b64decode(record["payloadBase64"])
        elif record.get("contentType") == "text/plain":
            payload = record["payload"].encode()
        else:
            payload = line.partition('"payload":')[2].strip().removesuffix("}").encode()
        found[record["messageId"]] = payload
    return found


def _read(uri: str) -> dict[str, bytes | None]:
    with Reader(uri) as store:
        return {message.message_id: message.payload for message in store.get_messages()}
