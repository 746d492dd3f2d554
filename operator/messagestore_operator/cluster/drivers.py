"""What the drivers of a namespace may do: their account, and the ConfigMaps that they may report to.

One Role names the ConfigMaps of all runs under way. The drivers of a namespace share an account, so that a Role for
each run would grant no less; and the API server reads all bindings of a namespace whenever one more is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from messagestore_operator.cluster.backend import RunParts, SparkBackend
from messagestore_operator.cluster.cache import Cache, RunObjects
from messagestore_operator.cluster.client import AlreadyExistsError, KubeClient, NotFoundError
from messagestore_operator.cluster.documents import namespace_of
from messagestore_operator.cluster.kinds import ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, Kind
from messagestore_operator.cluster.labels import MANAGED_BY, MANAGER
from messagestore_operator.settings import DriverSettings

_RBAC = "rbac.authorization.k8s.io"
_FRESH_SECONDS = 300.0
"""How long a namespace is taken to have what its drivers need, which somebody may have deleted."""


@dataclass
class _Reporting:
    """Of one namespace: the runs that its Role names, and its writes, which follow one another."""

    named: set[str] = field(default_factory=set)
    """By this process, in the last of its writes."""
    wanted: set[str] = field(default_factory=set)
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    begun: int = 0
    done: int = 0


class Drivers:
    """Gives drivers their rights."""

    def __init__(
        self, client: KubeClient, backend: SparkBackend, cache: Cache, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._backend = backend
        self._cache = cache
        self._clock = clock
        self._prepared: dict[str, float] = {}
        self._reporting: dict[str, _Reporting] = {}

    async def prepare(self, namespace: str, driver: DriverSettings) -> None:
        """Make what all drivers of a namespace need, unless it is known to be there.

        Their ServiceAccount, and the right to make executors, only where that is left to the operator. A namespace with
        no run in it may have been deleted, and made again without any of it.

        Raises:
            ApiError: it can't be made.
        """
        then = self._prepared.get(namespace)
        if then is None or self._clock() - then >= _FRESH_SECONDS or not self._cache.has_runs(namespace):
            await self._prepare(namespace, driver)

    async def may_report(self, namespace: str, run: str, driver: DriverSettings) -> None:
        """Let a run's driver read and change the run's ConfigMap; runs that are launched together share a write.

        Raises:
            ApiError: the Role can't be written.
        """
        reporting = self._reporting.setdefault(namespace, _Reporting())
        if run in reporting.named:
            return
        asked_after = reporting.begun
        reporting.wanted.add(run)
        try:
            async with reporting.turn:
                # A write that has begun since then named this run as well.
                if reporting.done <= asked_after:
                    await self._write(namespace, reporting, driver)
        finally:
            reporting.wanted.discard(run)

    async def _prepare(self, namespace: str, driver: DriverSettings) -> None:
        if driver.cluster_role is not None:
            metadata = {"name": driver.service_account, "namespace": namespace, "labels": {MANAGED_BY: MANAGER}}
            account = {**metadata, **({"annotations": driver.annotations} if driver.annotations else {})}
            await self._make(SERVICE_ACCOUNTS, {"metadata": account})
            await self._make(ROLE_BINDINGS, _binding(metadata, "ClusterRole", driver.cluster_role, driver))
        reports = {"name": report_role(driver), "namespace": namespace, "labels": {MANAGED_BY: MANAGER}}
        await self._make(ROLES, {"metadata": reports, "rules": []})
        await self._make(ROLE_BINDINGS, _binding(reports, ROLES.name, report_role(driver), driver))
        self._prepared[namespace] = self._clock()

    async def _write(self, namespace: str, reporting: _Reporting, driver: DriverSettings) -> None:
        reporting.begun += 1
        known = reporting.named if reporting.done else self._runs_in(namespace)
        begun, names = reporting.begun, reporting.wanted.union(name for name in known if self._reports(namespace, name))
        rules = {"rules": [_rule(names)]}
        path = ROLES.path(namespace, report_role(driver))
        try:
            await self._client.merge_patch(path, rules)
        except NotFoundError:
            await self._prepare(namespace, driver)
            await self._client.merge_patch(path, rules)
        reporting.named, reporting.done = names, begun

    def _runs_in(self, namespace: str) -> set[str]:
        return {name for (where, name), _ in self._cache.all_runs() if where == namespace}

    def _reports(self, namespace: str, name: str) -> bool:
        return self.is_under_way(self._cache.run((namespace, name)))

    def is_under_way(self, run: RunObjects) -> bool:
        """Whether a run's driver may have something to report, or come to have."""
        if run.config_map is None or run.application is None:
            return run.config_map is not None
        seen = self._backend.observe(RunParts(application=run.application))
        return seen is None or not seen.state.ended

    async def _make(self, kind: Kind, document: dict[str, Any]) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.name, **document}
        try:
            await self._client.create(kind.path(namespace_of(body)), body)
        except AlreadyExistsError:
            return


def report_role(driver: DriverSettings) -> str:
    """The name of the Role, and of its binding, by which the drivers of a namespace report."""
    return f"{driver.service_account}-reports"


def _rule(runs: set[str]) -> dict[str, Any]:
    # Without a name in it, it would be about all ConfigMaps: there is always the run that it is written for.
    return {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": sorted(runs),
        "verbs": ["get", "patch"],
    }


def _binding(metadata: dict[str, Any], kind: str, role: str, driver: DriverSettings) -> dict[str, Any]:
    return {
        "metadata": metadata,
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": [
            {"kind": SERVICE_ACCOUNTS.name, "name": driver.service_account, "namespace": metadata["namespace"]}
        ],
    }
