"""The permissions of a namespace's drivers: their account, and the ConfigMaps that they report to.

One Role names the ConfigMaps of all runs in progress. The drivers of a namespace share an account, so one Role per run
would grant no less. And each write of a Role is expensive, as the API server checks whether the operator may grant it.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.observe import app_state
from messagestore_operator.kube.client import AlreadyExistsError, ApiError, KubeClient, NotFoundError
from messagestore_operator.kube.objects import (
    MANAGED_BY,
    MANAGER,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
    ApiObject,
    Kind,
    at,
    metadata,
    namespace_of,
)
from messagestore_operator.kube.queue import WorkQueue
from messagestore_operator.settings import DriverSettings

_log = logging.getLogger(__name__)
_FRESH_SECONDS = 300.0
"""How often the objects that a namespace's drivers need are checked, and the Role of its runs in progress written."""
_TOGETHER_SECONDS = 2.0
"""How long a write waits for other runs of the namespace, to include them."""


@dataclass
class _Reporting:
    """The runs that the Role of one namespace names."""

    named: set[str] = field(default_factory=set)
    """The runs of this process's last write; empty before the first."""
    wanted: set[str] = field(default_factory=set)
    """Runs to be named by the next write."""
    written: float = 0.0
    """When it was last written: somebody may have changed or deleted it since."""


class Drivers:
    """Grants drivers their permissions."""

    def __init__(
        self,
        client: KubeClient,
        cache: Cache,
        settings: DriverSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._cache = cache
        self._settings = settings
        self._role = f"{settings.service_account}-reports"
        self._clock = clock
        self._prepared: dict[str, float] = {}
        self._reporting: defaultdict[str, _Reporting] = defaultdict(_Reporting)
        self._to_write: WorkQueue[str] = WorkQueue()

    async def prepare(self, namespace: str) -> None:
        """Create what all drivers of a namespace need, unless it is known to exist.

        That is their ServiceAccount and the right to create executors, if the settings leave these to the operator. A
        namespace without runs may have been deleted and created again, without these objects.
        """
        then = self._prepared.get(namespace)
        if then is None or self._clock() - then >= _FRESH_SECONDS or not self._cache.has_runs(namespace):
            await self._prepare(namespace)

    def let_report(self, namespace: str, run: str) -> None:
        """Let a run's driver read and change the run's ConfigMap; ``work`` writes the Role.

        A driver takes seconds to start, longer than the write: nothing has to wait for it.
        """
        reporting = self._reporting[namespace]
        named = run in reporting.named and self._clock() - reporting.written < _FRESH_SECONDS
        if not named and run not in reporting.wanted:
            reporting.wanted.add(run)
            self._to_write.add(namespace, _TOGETHER_SECONDS)

    async def work(self) -> None:
        """Write requested Roles, for ever, and retry failed writes. Several workers may run."""
        while True:
            namespace = await self._to_write.get()
            failed = False
            try:
                await self.write(namespace)
            except ApiError as error:
                failed = True
                _log.warning("drivers in %s may not report yet: %s", namespace, error)
            finally:
                self._to_write.done(namespace, failed=failed)

    async def write(self, namespace: str) -> None:
        """Write the Role of a namespace with the names of the runs in progress."""
        reporting = self._reporting[namespace]
        wanted, known = set(reporting.wanted), reporting.named
        if not known:
            known = {name for (where, name), _ in self._cache.all_runs() if where == namespace}
        names = {name for name in wanted | known if self._is_under_way(namespace, name)}
        if names & wanted:
            await self._name(namespace, names)
            reporting.named, reporting.written = names, self._clock()
        reporting.wanted -= wanted

    async def _prepare(self, namespace: str) -> None:
        driver = self._settings
        if driver.cluster_role is not None:
            account = _metadata(driver.service_account, namespace)
            given = driver.namespace_annotations.get(namespace, driver.annotations)
            if not await self._make(SERVICE_ACCOUNTS, {"metadata": {**account, "annotations": given}}):
                await self._annotate(namespace, given)
            await self._bind(account, "ClusterRole", driver.cluster_role)
        reports = _metadata(self._role, namespace)
        await self._make(ROLES, {"metadata": reports, "rules": []})
        await self._bind(reports, ROLES.name, self._role)
        self._prepared[namespace] = self._clock()

    async def _annotate(self, namespace: str, given: dict[str, str]) -> None:
        """Give an existing account its annotations, and take from it those that other settings had given it.

        It may have been created with the cloud identity of all namespaces.
        """
        path = SERVICE_ACCOUNTS.path(namespace, self._settings.service_account)
        named = set(self._settings.annotations).union(*self._settings.namespace_annotations.values())
        own = {name: given.get(name) for name in sorted(named)}
        account = await self._client.merge_patch(path, {"metadata": {"annotations": own}})
        if former := _annotations_of_operator(account) - given.keys():
            await self._client.merge_patch(path, {"metadata": {"annotations": dict.fromkeys(sorted(former))}})

    async def _name(self, namespace: str, runs: set[str]) -> None:
        rules = {"rules": [_rule(runs)]}
        path = ROLES.path(namespace, self._role)
        try:
            await self._client.merge_patch(path, rules)
        except NotFoundError:
            await self._prepare(namespace)
            await self._client.merge_patch(path, rules)

    def _is_under_way(self, namespace: str, name: str) -> bool:
        run = self._cache.run((namespace, name))
        return run.config_map is not None and not app_state(run.application).ended

    async def _bind(self, metadata: dict[str, Any], kind: str, role: str) -> None:
        account = self._settings.service_account
        subject = {"kind": SERVICE_ACCOUNTS.name, "name": account, "namespace": metadata["namespace"]}
        reference = {"apiGroup": ROLES.group, "kind": kind, "name": role}
        await self._make(ROLE_BINDINGS, {"metadata": metadata, "roleRef": reference, "subjects": [subject]})

    async def _make(self, kind: Kind, document: dict[str, Any]) -> bool:
        """Create an object; False if one of its name exists, which stays as it is."""
        body = {"apiVersion": kind.api_version, "kind": kind.name, **document}
        try:
            await self._client.create(kind.path(namespace_of(body)), body)
        except AlreadyExistsError:
            return False
        return True


def _metadata(name: str, namespace: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace, "labels": {MANAGED_BY: MANAGER}}


def _annotations_of_operator(account: ApiObject) -> set[str]:
    """The annotations whose values the operator has written."""
    fields = [
        at(entry, "fieldsV1", "f:metadata", "f:annotations") or {}
        for entry in metadata(account).get("managedFields") or ()
        if entry.get("manager") == MANAGER
    ]
    return {field.removeprefix("f:") for names in fields for field in names if field.startswith("f:")}


def _rule(runs: set[str]) -> dict[str, Any]:
    # A Role without names would grant all ConfigMaps, so it is written only with at least one run.
    return {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": sorted(runs),
        "verbs": ["get", "patch"],
    }
