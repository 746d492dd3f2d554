"""The right to write to one table: a Lease that names the run that has it.

Each change is a write that the API server refuses if another came first. A Lease has no duration, because no time
proves that a driver is gone. It is deleted a day after its last use: then the clock alone gives a higher epoch.
"""

import hashlib
from datetime import datetime
from typing import Any

from messagestore_operator.decide.snapshot import TableKey
from messagestore_operator.kube.client import ConflictError, KubeClient, NotFoundError
from messagestore_operator.kube.objects import LEASES, MANAGED_BY, MANAGER, ApiObject, at, name_of, time_text
from messagestore_operator.names import TABLE


def lease_name(table: TableKey) -> str:
    """The Lease of a table."""
    return f"messagestore-{hashlib.sha256(str(table).encode()).hexdigest()[:16]}"


def holder_of(lease: ApiObject) -> str | None:
    """Who has the right to write: namespace/run."""
    return at(lease, "spec", "holderIdentity") or None


class TableLeases:
    """The Leases of all tables, in the operator's own namespace, where no tenant can change them."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace

    async def read(self, table: TableKey) -> ApiObject | None:
        """A table's Lease from the API server; None if there is none."""
        return await self._client.find(LEASES.path(self._namespace, lease_name(table)))

    async def acquire(self, table: TableKey, holder: str, epoch: int, version: str | None, now: datetime) -> ApiObject:
        """Give the table to a run.

        Args:
            holder: namespace/run.
            version: the resource version that the Lease must still have; None: it must not exist.

        Raises:
            ConflictError: the Lease has changed.
        """
        times = {"acquireTime": time_text(now), "renewTime": time_text(now)}
        metadata = {"name": lease_name(table), "labels": {MANAGED_BY: MANAGER}, "annotations": {TABLE: str(table)}}
        lease: dict[str, Any] = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            "metadata": metadata,
            "spec": {"holderIdentity": holder, "leaseTransitions": epoch, **times},
        }
        if version is None:
            return await self._client.create(LEASES.path(self._namespace), lease)
        return await self._replace({**lease, "metadata": {**metadata, "resourceVersion": version}})

    async def release(
        self, table: TableKey, holder: str, now: datetime, known: ApiObject | None = None
    ) -> ApiObject | None:
        """Release a run's table; None if the run doesn't have it.

        Args:
            holder: namespace/run.
            known: the Lease as last seen; if it is unchanged, it need not be read.

        Raises:
            ConflictError: the Lease changed at the same time.
        """
        if known is not None and holder_of(known) == holder:
            try:
                return await self._replace(_free(known, now))
            except (ConflictError, NotFoundError):
                # It has changed since.
                pass
        lease = await self.read(table)
        if lease is None or holder_of(lease) != holder:
            return None
        return await self._replace(_free(lease, now))

    async def remove(self, lease: ApiObject) -> None:
        """Delete a Lease if it still is as given.

        Raises:
            ConflictError: it has changed.
        """
        version = str(at(lease, "metadata", "resourceVersion"))
        await self._client.delete(LEASES.path(self._namespace, name_of(lease)), version=version)

    async def _replace(self, lease: ApiObject) -> ApiObject:
        return await self._client.replace(LEASES.path(self._namespace, name_of(lease)), lease)


def _free(lease: ApiObject, now: datetime) -> ApiObject:
    kept = {key: value for key, value in lease["spec"].items() if key != "holderIdentity"}
    return {**lease, "spec": {**kept, "renewTime": time_text(now)}}
