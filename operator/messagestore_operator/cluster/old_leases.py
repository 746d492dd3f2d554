"""Releases and deletes the Leases of tables that no resource names any more, which would otherwise stay for ever."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection

from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.gather import Gatherer
from messagestore_operator.cluster.lease import TABLE
from messagestore_operator.decide.leases import is_abandoned, is_left_over
from messagestore_operator.decide.snapshot import Defaults, TableKey
from messagestore_operator.kube.client import ApiError
from messagestore_operator.kube.objects import LEASES, ApiObject, metadata

_log = logging.getLogger(__name__)


class OldLeases:
    """Deletes old Leases periodically.

    Args:
        namespaces: watched namespaces, empty means all; other Leases belong to other operators.
    """

    def __init__(
        self,
        cluster: Cluster,
        gatherer: Gatherer,
        namespaces: Collection[str],
        defaults: Defaults,
    ) -> None:
        self._cache = cluster.cache
        self._leases = cluster.leases
        self._gatherer = gatherer
        self._namespaces = namespaces
        self._defaults = defaults
        self._now = cluster.now

    async def work(self, every: float) -> None:
        """Delete old Leases periodically, for ever."""
        while True:
            await asyncio.sleep(every)
            await self.remove()

    async def remove(self) -> None:
        """Delete the old Leases; one that can't be deleted now waits for the next time."""
        for document in self._cache.leases():
            table = TableKey.parse(str((metadata(document).get("annotations") or {}).get(TABLE)))
            if table is None or (self._namespaces and table.namespace not in self._namespaces):
                continue
            try:
                await self._release_if_unused(table, document)
            except ApiError as error:
                _log.info("the Lease of %s stays for now: %s", table, error)

    async def _release_if_unused(self, table: TableKey, document: ApiObject) -> None:
        lease = await self._gatherer.lease(table)
        named = bool(self._cache.interested(table))
        if is_left_over(lease, named, self._now(), self._defaults):
            await self._leases.remove(document)
            self._cache.remove({**document, "kind": LEASES.name})
        elif lease.holder is not None and not named and is_abandoned(lease, self._now(), self._defaults):
            # Its resource went while the run was in progress, so no decision releases it.
            released = await self._leases.release(table, lease.holder, self._now(), document)
            if released is not None:
                self._cache.put(released)
