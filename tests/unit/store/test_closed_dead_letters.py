"""Dead letters of files that are read again: closed if they don't come again, and open again if they do."""

import hashlib
from datetime import timedelta
from pathlib import Path
from typing import Any

from messagestore_core.store.dead_letters import close_and_reopen, withdraw
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from support.replays import AT
from support.stores import add_dead_letters, make_store

URI = "file:///landing/a"
BATCH = "landing-1/1"


def letter(raw: bytes, offset: int, **more: Any) -> dict[str, Any]:
    place = {"kind": "files", "uri": URI, "partition": None, "offset": offset}
    return {"raw": raw, "failed_at": AT, "batch": "landing/1", "source": place, "detail": "it's no JSON", **more}


def key(raw: bytes, offset: int) -> tuple[str, None, int, bytes]:
    return URI, None, offset, hashlib.sha256(raw).digest()


def redriven(uri: str) -> dict[bytes, str | None]:
    rows = Store(uri).table("dead_letters").to_pyarrow_table().to_pylist()
    assert all((row["redriven_at"] is None) == (row["redriven_by"] is None) for row in rows)
    return {row["raw"]: row["redriven_by"] for row in rows}


def test_dead_letters_of_records_that_a_batch_reads_again_are_closed_unless_they_fail_again(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", []).uri
    update = {"source": {"kind": "updates", "uri": URI, "partition": None, "offset": 3}}
    rows = [
        letter(b"gone", 0),
        letter(b"same place", 0, batch="landing/2"),
        letter(b"again", 10),
        letter(b"before", 20, redriven_at=AT, redriven_by="default/again"),
        letter(b"behind", 100),
        letter(b"own", 5, batch=BATCH),
        letter(b"of a message", 6, reason="RetriesExhausted"),
        letter(b"an update", 3) | update,
    ]
    add_dead_letters(uri, rows)
    store, at = HeldStore(uri), AT + timedelta(hours=1)
    first = {key(b"again", 10), key(b"same place", 0)}
    close_and_reopen(store, {URI: [(0, 50)]}, first, at, BATCH)
    before = {row["raw"]: row.get("redriven_by") for row in rows}
    assert redriven(uri) == before | {b"gone": f"readAgain/{BATCH}"}
    close_and_reopen(store, {URI: [(0, 1), (40, 200)]}, {key(b"gone", 0)}, at, "landing-2/1")
    assert redriven(uri)[b"gone"] is None
    assert redriven(uri)[b"behind"] == "readAgain/landing-2/1"
    withdraw(store, "landing-2/1")
    assert redriven(uri)[b"behind"] is None
