"""A driver's report at its end, for each kind of task."""

from collections.abc import Mapping
from typing import Any

from messagestore_core.contract.ingest import Lag
from messagestore_core.contract.replay import CursorState, FrozenSelection, ReplayOutcome, ReplayProgress

_COUNTS = {"received": 3, "stored": 2, "duplicates": 1, "deadLettered": 0, "filtered": 0, "discarded": 0}
_TABLE = {"version": 1, "messages": 2, "deadLetters": 0, "bytes": 100}


def outcome(
    document: dict[str, Any], now: str, *, complete: bool = True, away: Mapping[str, dict[str, str]] | None = None
) -> dict[str, Any]:
    """An outcome that fits a run document; that of a replay may not be complete.

    Args:
        away: the errors of some of several destinations of a replay, by their names.
    """
    task = document["task"]
    made = {
        "ingest": {"counts": _COUNTS, "totals": _COUNTS, "batches": 1, "table": _TABLE, "lag": {"asOf": now}},
        "purge": _purge(document, now),
        "replay": {
            "selection": {"tableVersion": 1, "messages": 2, "bytes": 100},
            "progress": {"replayed": 2, "percent": 100},
            "complete": complete,
            **_written_by_replay(document),
            **_goes_on(document, now),
            **_by_route(document, now, away or {}),
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
    task = document["task"]
    return task.get("batchInterval") is not None or bool((task.get("subscription") or {}).get("continuous"))


def _goes_on(document: dict[str, Any], now: str) -> dict[str, Any]:
    """The cursor of a continuous replay, which has done what it was asked for, and knows all tombstones."""
    if document["task"]["kind"] != "replay" or not is_continuous(document):
        return {}
    reset = (document["task"]["subscription"].get("reset") or {}).get("value")
    cursor = {"globalPosition": 2, "rounds": 1, "sent": 2, "reset": reset, "lag": {"asOf": now, "records": 0}}
    return {"cursor": cursor, "round": 1, "redelivered": 2, "tombstones": 5}


def _by_route(document: dict[str, Any], now: str, away: Mapping[str, dict[str, str]]) -> dict[str, Any]:
    """The state of each of several destinations."""
    if document["task"].get("destination", {}).get("kind") != "routes":
        return {}
    cursor = {"globalPosition": 2, "rounds": 1, "sent": 2, "lag": {"asOf": now, "records": 0}}
    tried = [route["name"] for route in document["task"]["destination"]["routes"] if not route.get("rests")]
    states: list[dict[str, Any]] = [
        {"name": name, "cursor": cursor, **({"error": away[name]} if name in away else {})} for name in tried
    ]
    if is_continuous(document):
        for state in states:
            state["goingOn"] = {"tries": 2, "since": now, "lastTry": now} if "error" in state else {"tries": 0}
    return {"cursor": None, "round": 1, "redelivered": 2, "destinations": states}


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
        purge |= {"eraseDueBy": now, "tombstonesVersion": 5}
    enforced = document["task"].get("mode") == "Enforce"
    return {"preview": preview, **({"purge": purge} if enforced else {}), "table": _TABLE}


def subscription_outcome(lag: Lag, messages: int, position: int, rounds: int = 1, **cursor: Any) -> ReplayOutcome:
    """The outcome of a subscription's run that sent some messages, up to a position."""
    state = CursorState(global_position=position, rounds=rounds, sent=messages, lag=lag, **cursor)
    return ReplayOutcome(
        selection=FrozenSelection(table_version=1, messages=messages, bytes=10),
        progress=ReplayProgress(replayed=messages, percent=100),
        complete=True,
        round=rounds,
        redelivered=messages,
        cursor=state,
    )
