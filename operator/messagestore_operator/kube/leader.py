"""Leader election: the replica that holds a Lease works, as long as it renews the Lease.

As in client-go, no clock of another machine is trusted: a Lease has expired when this replica has seen it unchanged for
its whole duration. A leader that can't renew for ``renew_deadline``, which is shorter, has stopped by then, even if its
requests hang.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from messagestore_operator.kube.client import ApiError, KubeClient
from messagestore_operator.kube.objects import LEASES, MANAGED_BY, MANAGER, ApiObject, at, time_text

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Timing:
    """Seconds: how long a Lease lasts, when a leader gives up, and how often it tries."""

    duration: float = 15
    renew_deadline: float = 10
    retry: float = 2


class Leader:
    """One replica in the election.

    Args:
        client: without the shared rate: a renewal must not wait behind other requests.
        identity: of this replica, unique.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._collection = LEASES.path(namespace)
        self._path = LEASES.path(namespace, name)
        self._name = name
        self._identity = identity
        self._timing = timing or Timing()
        self._clock = clock
        self._seen: tuple[str, float] | None = None
        self.holder: str = ""
        """The last holder of the Lease that this replica has seen."""

    async def acquire(self) -> None:
        """Wait until this replica is the leader."""
        while not await self._try():
            await asyncio.sleep(self._timing.retry)
        _log.info("%s leads", self._identity)

    async def hold(self) -> None:
        """Renew the Lease until leadership is lost; after that nothing may be written."""
        renewed = self._clock()
        while self._clock() - renewed < self._timing.renew_deadline:
            await asyncio.sleep(self._timing.retry)
            started = self._clock()
            left = self._timing.renew_deadline - (started - renewed)
            if left <= 0:
                # The process was frozen. Another replica may lead already, so work in progress must stop.
                break
            if await self._try(left):
                renewed = started
            elif self.holder not in ("", self._identity):
                break
        _log.error(
            "%s leads no more: the Lease could not be renewed in time, or %s took it", self._identity, self.holder
        )

    async def release(self) -> None:
        """Release the Lease, so that the next replica need not wait for it to expire."""
        try:
            lease = await self._client.find(self._path)
            if lease is not None and _holder(lease) == self._identity:
                await self._client.replace(self._path, {**lease, "spec": {**lease["spec"], "holderIdentity": ""}})
        except ApiError as error:
            _log.warning("the leader's Lease was not released: %s", error)

    async def _try(self, seconds: float | None = None) -> bool:
        """Take or renew the Lease if possible, within ``seconds``."""
        try:
            async with asyncio.timeout(max(0.1, seconds if seconds is not None else self._timing.renew_deadline)):
                return await self._take()
        except Exception as error:
            # Whatever it is, such as a token that can't be read: without renewals this replica must stop in time.
            _log.warning("the leader's Lease could not be taken or renewed: %s", error or "no answer in time")
            return False

    async def _take(self) -> bool:
        lease = await self._client.find(self._path)
        if lease is None:
            await self._client.create(self._collection, self._document(None))
        elif self._is_free(lease):
            await self._client.replace(self._path, self._document(lease))
        else:
            self.holder = _holder(lease)
            return False
        self.holder = self._identity
        return True

    def _is_free(self, lease: ApiObject) -> bool:
        version = str(at(lease, "metadata", "resourceVersion"))
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, self._clock())
        unchanged = self._clock() - self._seen[1]
        lasts = float(at(lease, "spec", "leaseDurationSeconds") or self._timing.duration)
        return _holder(lease) in ("", self._identity) or unchanged > lasts

    def _document(self, lease: ApiObject | None) -> dict[str, Any]:
        now = time_text(datetime.now(UTC))
        before = dict(lease["spec"]) if lease else {"leaseTransitions": -1}
        again = before.get("holderIdentity") == self._identity
        return {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.name,
            # With these labels the operator's own watch shows each renewal, which proves that watches work.
            "metadata": dict(lease["metadata"]) if lease else {"name": self._name, "labels": {MANAGED_BY: MANAGER}},
            "spec": {
                **before,
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._timing.duration)),
                "renewTime": now,
                "acquireTime": before.get("acquireTime", now) if again else now,
                "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if again else 1),
            },
        }


def _holder(lease: ApiObject) -> str:
    return str(at(lease, "spec", "holderIdentity") or "")
