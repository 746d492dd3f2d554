"""Which ended runs are kept for people to look at, and which are removed; and which Leases are released."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

from messagestore_operator.decide.actions import DeleteRun, ReleaseLease
from messagestore_operator.decide.snapshot import AppState, ObservedRun, Snapshot


def old_runs(snapshot: Snapshot, current: Collection[str], listed: int | None = None) -> Iterator[DeleteRun]:
    """Remove all runs but the current ones and, of each stream, the newest that ended.

    As many of these stay as the settings say, and no more than the status lists, where that has a limit.

    A run that goes on although no status names it as current is ended: it must not write any more.
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
        snapshot: with the leases.
        namespace: the resource's.
        current: names of runs that go on.
        over: names of runs that are known to be over, though the status in the snapshot may still name them.
    """
    for table, lease in sorted(snapshot.leases.items()):
        if not lease.holder:
            continue
        where, _, name = lease.holder.partition("/")
        if where != namespace or name in current:
            continue
        run = snapshot.run(name)
        if name in over or (lease.holder_claim is None and run is not None and run.over):
            yield ReleaseLease(table, lease.holder, lease.resource_version)
