"""What the audit tells of holds: a row when one is added, and one when it is released; a changed one is both."""

import hashlib
import json
from collections import Counter
from typing import Any

from messagestore_jobs.contract.run_document import Hold, IngestTask, RunDocument
from messagestore_jobs.store.audit import note, rows_of, rules_text

_ADDED, _RELEASED = "HoldAdded", "HoldReleased"


def note_holds(document: RunDocument) -> None:
    """Tell the audit which of the stream's holds are new, and which are no more."""
    assert isinstance(document.task, IngestTask)
    uri = document.table.uri
    given = {rules_text(_detail(hold)) for hold in document.task.holds}
    known = _known(uri)
    for rules in sorted(given - known):
        note(uri, document, _ADDED, json.loads(rules))
    for rules in sorted(known - given):
        note(uri, document, _RELEASED, json.loads(rules))


def _known(uri: str) -> set[str]:
    rows = [row for row in rows_of(uri, _ADDED, _RELEASED) if _tells_a_hold(row["rules"])]
    added = Counter(row["rules"] for row in rows if row["action"] == _ADDED)
    return set(added - Counter(row["rules"] for row in rows if row["action"] == _RELEASED))


def _tells_a_hold(rules: str | None) -> bool:
    """Whether a run has written it: what lies in a store may be anybody's."""
    try:
        detail = json.loads(rules or "")
    except (ValueError, RecursionError):
        return False
    return isinstance(detail, dict) and set(detail) == {"hold", "match", "until"} and rules == rules_text(detail)


def _detail(hold: Hold) -> dict[str, Any]:
    """A digest stands for what is held: it may name what is to be erased one day."""
    match = json.dumps(hold.match.model_dump(mode="json", exclude_defaults=True), sort_keys=True)
    until = hold.until.isoformat() if hold.until else None
    return {"hold": hold.name, "match": hashlib.sha256(match.encode()).hexdigest(), "until": until}
