"""What the operator asks of a run while it lasts, by its ConfigMap's control key."""

import json
from dataclasses import dataclass

from pydantic import ValidationError

from messagestore_jobs.contract.run_document import Upkeep


@dataclass(frozen=True)
class Commands:
    """`paced` tells whether a rate limit is asked for at all; if so, None is no limit."""

    stop: bool = False
    paced: bool = False
    messages_per_second: float | None = None
    maintain: Upkeep | None = None


def read_commands(text: str | None) -> Commands:
    """What stands in the control key; what can't be understood asks for nothing."""
    try:
        asked = json.loads(text) if text else {}
    except ValueError:
        return Commands()
    if not isinstance(asked, dict):
        return Commands()
    stop, rate, maintain = asked.get("stop") is True, asked.get("messagesPerSecond"), _upkeep(asked.get("maintain"))
    if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0:
        return Commands(stop, paced=True, messages_per_second=float(rate), maintain=maintain)
    return Commands(stop, paced=rate is None and "messagesPerSecond" in asked, maintain=maintain)


def _upkeep(asked: object) -> Upkeep | None:
    try:
        return Upkeep.model_validate(asked)
    except ValidationError:
        return None
