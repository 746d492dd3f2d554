"""All figures of a store that its page is drawn from; they may be read on another machine than the one that draws."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import ConfigDict

from messagestore.audit import AuditRow
from messagestore.dead_letters import DeadLetter
from messagestore.leaving import Leaving
from messagestore.overview import Overview
from messagestore.reader import Reader
from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.purge import Hold, Rule

ACTIONS = ("Purge", "Scrub", "Erase", "Replay", "Redrive")
"""What a page shows of the audit."""
DAYS = 30
"""For how many days a page says what policies would remove."""
_SAMPLES = 3
"""How many dead letters of each reason are shown."""
_AUDIT = 500
"""How many rows of the audit are read, the newest."""


class PolicyRules(ContractModel):
    """A policy's rules, and the holds of its stream, of which a page tells what they would remove."""

    rules: tuple[Rule, ...]
    holds: tuple[Hold, ...] = ()


class Figures(ContractModel):
    """What a page says of one store; ``leaving`` has an entry for each policy that was asked for."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    owner: tuple[str, str] | None
    overview: Overview
    leaving: tuple[Leaving, ...]
    samples: tuple[DeadLetter, ...]
    audit: tuple[AuditRow, ...]


def figures(reader: Reader, policies: Sequence[PolicyRules], as_of: datetime, *, payloads: bool) -> Figures:
    """Read them; of all messages a few narrow columns are read.

    Args:
        as_of: when the days of the policies begin.
        payloads: whether the samples of dead letters have their records.
    """
    overview = reader.overview()
    open_ = [one.reason for one in overview.reasons if one.open]
    samples = [one for reason in open_ for one in reader.dead_letters([reason], False, _SAMPLES, raw=payloads)]
    return Figures(
        owner=reader.owner,
        overview=overview,
        leaving=tuple(reader.leaving(one.rules, one.holds, as_of, DAYS) for one in policies),
        samples=tuple(samples),
        audit=tuple(reader.audit(ACTIONS, batch_size=_AUDIT)),
    )
