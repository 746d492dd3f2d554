"""What the operator asks of a run while it lasts, by its ConfigMap's control key."""

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Wishes:
    """`paced` tells whether a rate limit is asked for at all; if so, None is no limit."""

    stop: bool = False
    paced: bool = False
    messages_per_second: float | None = None


def read_wishes(text: str | None) -> Wishes:
    """What stands in the control key; what can't be understood asks for nothing."""
    try:
        asked = json.loads(text) if text else {}
    except ValueError:
        return Wishes()
    if not isinstance(asked, dict):
        return Wishes()
    stop, rate = asked.get("stop") is True, asked.get("messagesPerSecond")
    if isinstance(rate, int | float) and not isinstance(rate, bool) and rate > 0:
        return Wishes(stop, paced=True, messages_per_second=float(rate))
    return Wishes(stop, paced=rate is None and "messagesPerSecond" in asked)
