"""Which objects of ended runs are kept for people, and which are deleted; which Leases are released."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from messagestore_operator.api.status import CurrentRun
from messagestore_operator.decide.actions import DeleteRun, ReleaseLease
from messagestore_operator.decide.snapshot import AppState, ObservedRun, Snapshot


def cleanup(
    snapshot: Snapshot, before: Iterable[CurrentRun | None], now: Iterable[CurrentRun | None], listed: int | None = None
) -> list[DeleteRun | ReleaseLease]:
    """Delete old runs, and release the tables that the resource's runs hold and no longer need.

    Args:
        before: the current runs in the status so far; those that are not in ``now`` are over.
        now: the current runs in the next status.
    """
    current = {run.name for run in now if run is not None}
    over = {run.name for run in before if run is not None} - current
    return [*old_runs(snapshot, current, listed), *old_leases(snapshot, current, over)]


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


def old_leases(snapshot: Snapshot, current: Collection[str], over: Collection[str]) -> Iterator[ReleaseLease]:
    """Release the tables that the resource's runs hold and no longer need.

    Args:
        current: names of runs that go on.
        over: names of runs that are known to be over; the status in the snapshot may still have them.
    """
    for table, lease in sorted(snapshot.leases.items()):
        if not lease.holder:
            continue
        where, _, name = lease.holder.partition("/")
        if where != snapshot.resource.metadata.namespace or name in current:
            continue
        run = snapshot.run(name)
        if name in over or (lease.holder_request is None and run is not None and run.over):
            yield ReleaseLease(table, lease.holder)
