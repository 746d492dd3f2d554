"""Subscriptions and consumers of a store: which messages a rule leaves for them, and which a purge takes from them.

A cursor only grows, so one that is read before the messages says too little at most: then more stay.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.clock import from_microseconds, microseconds
from messagestore_core.contract.purge import Rule, Unsent
from messagestore_core.store.consumers import read_consumers
from messagestore_core.store.cursors import passed_by_all, read_cursors
from messagestore_core.store.delta_log import next_global_position
from messagestore_jobs.context import PurgeRun
from messagestore_jobs.purge.rules import age, any_of

WAITS_FOR, WAITS_SINCE = "waits_for", "waits_since"
"""Columns of messages that a rule leaves for subscriptions: their names, and microseconds since 1970."""


_CONSUMER = "consumer:"
"""Before the names of consumers; no name of a ReplayJob has a colon."""


@dataclass(frozen=True)
class Consumers:
    """The subscriptions and consumers of a store by name, each with its cursor, and those that the rules wait for."""

    cursors: dict[str, int]
    awaited: tuple[str, ...] = ()

    def passed(self, rule: Rule) -> Column:
        """Whether all subscriptions that a rule waits for have passed a message; one without a cursor has none."""
        positions = [self.cursors.get(name) for name in awaited(rule)]
        if not positions:
            return F.lit(True)
        known = [position for position in positions if position is not None]
        return F.col("global_position") <= min(known) if len(known) == len(positions) else F.lit(False)

    def behind(self, name: str) -> Column:
        """Whether a subscription has not passed a message."""
        at = self.cursors.get(name)
        return F.lit(True) if at is None else F.col("global_position") > at

    def waits(self, rules: Sequence[Rule], wanted: Sequence[Column], free: Column, as_of: datetime) -> list[Column]:
        """Columns WAITS_FOR and WAITS_SINCE.

        ``wanted`` tells of each rule whether it selects a message, but for its subscriptions; ``free``, whether no rule
        selects it and no hold keeps it.
        """
        waiting = [(rule, free & wants & ~self.passed(rule)) for rule, wants in zip(rules, wanted, strict=True)]
        waiting = [(rule, waits) for rule, waits in waiting if awaited(rule)]
        by_name = {
            name: any_of([waits for rule, waits in waiting if name in awaited(rule)]) & self.behind(name)
            for name in self.awaited
        }
        names = [F.when(F.coalesce(waits, F.lit(False)), F.lit(name)) for name, waits in by_name.items()]
        since = [F.when(waits, _since(rule, as_of)) for rule, waits in waiting]
        return [
            F.array_compact(F.array(*names).cast("array<string>")).alias(WAITS_FOR),
            F.array_min(F.array(*since).cast("array<bigint>")).alias(WAITS_SINCE),
        ]

    def counts(self, goes: Column) -> list[Column]:
        """Aggregates: messages that wait for each awaited one, since when, and what each one misses."""
        by_name = {name: F.array_contains(WAITS_FOR, name) for name in self.awaited}
        counted = {
            "waiting": [F.count_if(waits) for waits in by_name.values()],
            "since": [F.min(F.when(waits, F.col(WAITS_SINCE))) for waits in by_name.values()],
            "missed": [F.count_if(goes & self.behind(name)) for name in self.cursors],
        }
        return [F.array(*counts).cast("array<bigint>").alias(name) for name, counts in counted.items()]

    def unsent(self, days: Sequence[dict[str, Any]]) -> tuple[Unsent, ...]:
        """The subscriptions that rules wait for, and those that miss messages, by the counts of all days."""
        missed = {name: sum(day["missed"][at] for day in days) for at, name in enumerate(self.cursors)}
        others = [name for name in self.cursors if missed[name] and name not in self.awaited]
        kept = []
        for at, name in enumerate((*self.awaited, *others)):
            waits = [(day["waiting"][at], day["since"][at]) for day in days if at < len(day["waiting"])]
            since = min((moment for _, moment in waits if moment is not None), default=None)
            kept.append(
                Unsent(
                    name=name,
                    global_position=self.cursors.get(name),
                    waiting=sum(count for count, _ in waits),
                    waiting_since=None if since is None else from_microseconds(since),
                    missed=missed.get(name, 0),
                )
            )
        return tuple(kept)


def consumers_of(context: PurgeRun) -> Consumers:
    """Those of the run's store, as far as they are now, a subscription as far as the slowest of its destinations.

    A cursor ahead of the store says nothing.
    """
    own, store = context.document.resource.namespace, context.store
    sent, handled = read_cursors(store), read_consumers(store)
    head = next_global_position(store) - 1 if sent or handled else 0
    consumers = {
        name if namespace == own else f"{namespace}/{name}": passed_by_all(destinations, head)
        for (namespace, name), destinations in sorted(sent.items())
    }
    consumers |= {f"{_CONSUMER}{name}": cursor for name, cursor in sorted(handled.items())}
    cursors = {name: cursor for name, cursor in consumers.items() if cursor is not None and cursor <= head}
    return Consumers(cursors, tuple(dict.fromkeys(name for rule in context.task.rules for name in awaited(rule))))


def awaited(rule: Rule) -> tuple[str, ...]:
    """The subscriptions and consumers that a rule waits for."""
    if rule.consumed_by is None:
        return ()
    return (*rule.consumed_by.replay_jobs, *(f"{_CONSUMER}{name}" for name in rule.consumed_by.consumers))


def _since(rule: Rule, as_of: datetime) -> Column:
    """Since when a message meets a rule, in microseconds; limits that depend on other messages don't count."""
    moments = [F.unix_micros("inserted_at")]
    if rule.expired:
        moments.append(F.unix_micros("expires_at"))
    if rule.statuses:
        moments.append(F.unix_micros("updated_at"))
    if rule.max_age is not None:
        # Bounded, as it may be longer than time goes back.
        span = min(rule.max_age // timedelta(microseconds=1), microseconds(as_of))
        moments.append(F.unix_micros(age()) + F.lit(span))
    return F.greatest(*moments) if len(moments) > 1 else moments[0]
