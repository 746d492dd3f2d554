"""The right to write to one table, as a Lease that names the run which has it.

The Lease is granted by a write that the API server refuses if anybody else was faster, and lasts until it is released:
it has no duration, because no time tells that a driver is gone. It is never deleted, so that its epoch goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from messagestore_operator.api.resource import GROUP
from messagestore_operator.cluster.client import KubeClient
from messagestore_operator.cluster.documents import Document, at, name_of
from messagestore_operator.cluster.kinds import LEASES
from messagestore_operator.cluster.labels import MANAGED_BY, MANAGER

TABLE = f"{GROUP}/table"
"""Annotation: the table's URI, for people."""

_EPOCHS_START = datetime(2020, 1, 1, tzinfo=UTC)


class LeaseHeldError(Exception):
    """Another run has the right to write.

    Attributes:
        holder: namespace/run of the other.
    """

    def __init__(self, name: str, holder: str) -> None:
        super().__init__(f"Lease {name} is held by {holder}")
        self.holder = holder


@dataclass(frozen=True)
class TableLease:
    """The state of a table's Lease: who may write, empty for nobody, and the epoch of the last grant."""

    name: str
    holder: str
    epoch: int


def table_lease(document: Document) -> TableLease:
    """A Lease as the API has it."""
    holder, epoch = at(document, "spec", "holderIdentity"), at(document, "spec", "leaseTransitions")
    return TableLease(name_of(document), str(holder or ""), int(epoch or 0))


def next_epoch(before: int, now: datetime) -> int:
    """The epoch of a grant: higher than that before, and at least the seconds since 2020.

    Grants of one table are seconds apart and more. So it doesn't go back either where the Lease was deleted, the
    cluster was made anew, or a second cluster knows the table: there is nothing before, but time has passed.
    """
    return max(before + 1, int((now - _EPOCHS_START).total_seconds()))


class TableLeases:
    """The Leases of all tables, in the operator's own namespace: resources of any namespace meet there."""

    def __init__(
        self, client: KubeClient, namespace: str, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._now = now

    async def read(self, name: str) -> TableLease | None:
        """The Lease as it is this moment; None where no run ever wrote to the table."""
        document = await self._client.find(LEASES.path(self._namespace, name))
        return None if document is None else table_lease(document)

    async def grant(self, name: str, holder: str, table: str) -> int:
        """Give a run the right to write, and return the grant's epoch; a run that has it already keeps its epoch.

        Raises:
            LeaseHeldError: another run has it.
            ConflictError: somebody was faster; look again.
        """
        document = await self._client.find(LEASES.path(self._namespace, name))
        if document is None:
            made = await self._client.create(LEASES.path(self._namespace), self._document(name, holder, table))
            return table_lease(made).epoch
        lease = table_lease(document)
        if lease.holder == holder:
            return lease.epoch
        if lease.holder:
            raise LeaseHeldError(name, lease.holder)
        granted = {**document, "spec": {**(document.get("spec") or {}), **self._spec(holder, lease.epoch)}}
        return table_lease(await self._client.replace(LEASES.path(self._namespace, name), granted)).epoch

    async def release(self, name: str, holder: str) -> None:
        """Take the right from a run that is over; nothing happens where it hasn't got it.

        Raises:
            ConflictError: the Lease changed meanwhile; look again.
        """
        document = await self._client.find(LEASES.path(self._namespace, name))
        if document is None or table_lease(document).holder != holder:
            return
        free = {**document, "spec": {**document["spec"], "holderIdentity": "", "renewTime": _time(self._now())}}
        await self._client.replace(LEASES.path(self._namespace, name), free)

    def _document(self, name: str, holder: str, table: str) -> dict[str, Any]:
        metadata = {"name": name, "labels": {MANAGED_BY: MANAGER}, "annotations": {TABLE: table}}
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            "metadata": metadata,
            "spec": self._spec(holder, 0),
        }

    def _spec(self, holder: str, before: int) -> dict[str, Any]:
        now = self._now()
        return {
            "holderIdentity": holder,
            "leaseTransitions": next_epoch(before, now),
            "acquireTime": _time(now),
            "renewTime": _time(now),
        }


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
