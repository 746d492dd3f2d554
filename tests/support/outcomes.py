"""A driver's report at its end, for each kind of task."""

from typing import Any

_COUNTS = {"received": 3, "stored": 2, "duplicates": 1, "deadLettered": 0, "filtered": 0, "discarded": 0}
_TABLE = {"version": 1, "messages": 2, "deadLetters": 0, "bytes": 100}


def outcome(document: dict[str, Any], now: str, *, complete: bool = True) -> dict[str, Any]:
    """An outcome that fits a run document; that of a replay may not be complete."""
    task = document["task"]
    made = {
        "ingest": {"counts": _COUNTS, "totals": _COUNTS, "batches": 1, "table": _TABLE, "lag": {"asOf": now}},
        "purge": _purge(document, now),
        "replay": {
            "selection": {"tableVersion": 1, "messages": 2, "bytes": 100},
            "progress": {"replayed": 2, "percent": 100},
            "complete": complete,
            **_written_by_replay(document),
        },
        "maintain": {
            **dict.fromkeys(("filesBefore", "filesAfter", "bytesBefore", "bytesAfter"), 1),
            **dict.fromkeys(("tableVersionBefore", "tableVersionAfter"), 1),
            "table": _TABLE,
        },
        "erase": {"erased": 1, "erasedAt": now, "table": _TABLE},
        "delete": {"deleted": ["messages"]},
    }
    return {"kind": task["kind"], **made[task["kind"]]}


def is_continuous(document: dict[str, Any]) -> bool:
    """Whether a run document is for a run that goes on until it is asked to stop."""
    return document["task"].get("batchInterval") is not None


def _written_by_replay(document: dict[str, Any]) -> dict[str, Any]:
    """The stores of a replay into another stream; one of a redrive has a dead letter left."""
    task, to = document["task"], document["task"].get("destination", {})
    if to.get("kind") != "stream":
        return {}
    written = {"targetTable": {**_TABLE, "messages": 4, "lastGlobalPosition": 4, "epoch": to["table"]["epoch"]}}
    if task.get("origin") == "DeadLetters":
        written["table"] = {**_TABLE, "deadLetters": 1, "epoch": document["table"]["epoch"]}
    return written


def _purge(document: dict[str, Any], now: str) -> dict[str, Any]:
    preview = {"id": "p1", "tableVersion": 1, "asOf": now, "messages": 1, "bytes": 10}
    purge = {"run": document["run"], "at": now, "tableVersionBefore": 1, "tableVersionAfter": 2, "purged": 1}
    if any(rule.get("erase") for rule in document["task"].get("rules", ())):
        purge["eraseDueBy"] = now
    enforced = document["task"].get("mode") == "Enforce"
    return {"preview": preview, **({"purge": purge} if enforced else {}), "table": _TABLE}
