"""Which objects of ended runs are kept for people, and which are deleted; which Leases are released."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from messagestore_operator.decide.actions import DeleteRun, ReleaseLease
from messagestore_operator.decide.snapshot import AppState, ObservedRun, Snapshot


def old_runs(snapshot: Snapshot, current: Collection[str], listed: int | None = None) -> Iterator[DeleteRun]:
    """Delete all runs except the current ones and the newest ended ones of each stream.

    The settings, and the status' limit if it has one, bound how many of those are kept.

    A run that goes on although no status names it as current is deleted, too: it must not write any more.
    """
    ended: dict[str | None, list[ObservedRun]] = defaultdict(list)
    for run in snapshot.runs:
        if run.ref.name in current or run.deleting:
            continue
        if run.state.ended:
            ended[run.ref.stream].append(run)
        elif run.state is not AppState.MISSING or (run.config_map and run.driver is None):
            yield DeleteRun(run.ref.namespace, run.ref.name)
    most = snapshot.defaults.ended_runs
    kept = most if listed is None else min(listed, most)
    for runs in ended.values():
        newest = sorted(runs, key=lambda run: run.ref.number, reverse=True)
        yield from (DeleteRun(run.ref.namespace, run.ref.name) for run in newest[kept:])


def old_leases(
    snapshot: Snapshot, namespace: str, current: Collection[str], over: Collection[str]
) -> Iterator[ReleaseLease]:
    """Release the tables that the resource's runs hold and no longer need.

    Args:
        namespace: that of the resource.
        current: names of runs that go on.
        over: names of runs that are known to be over; the status in the snapshot may still have them.
    """
    for table, lease in sorted(snapshot.leases.items()):
        if not lease.holder:
            continue
        where, _, name = lease.holder.partition("/")
        if where != namespace or name in current:
            continue
        run = snapshot.run(name)
        if name in over or (lease.holder_request is None and run is not None and run.over):
            yield ReleaseLease(table, lease.holder, lease.resource_version)
