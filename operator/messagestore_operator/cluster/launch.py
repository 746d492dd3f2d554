"""Making a run: its ConfigMap, the driver's right to report to it, then the application.

Everything belongs to the ConfigMap, and the ConfigMap to the application as soon as there is one; until then to the
resource. So whatever is deleted first, and wherever the operator is killed, the cluster clears up by itself. What is
there already is left as it is: it was made for the same run before the operator was killed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from messagestore_operator.cluster.backend import Launch, SparkBackend
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.client import AlreadyExistsError, KubeClient, NotFoundError
from messagestore_operator.cluster.documents import Document, at, name_of, namespace_of
from messagestore_operator.cluster.kinds import CONFIG_MAPS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS, Kind
from messagestore_operator.cluster.labels import MANAGED_BY, MANAGER
from messagestore_operator.cluster.owners import document_reference, owner_reference
from messagestore_operator.cluster.reports import CONTROL, DOCUMENT
from messagestore_operator.cluster.runref import run_annotations, run_labels
from messagestore_operator.decide.snapshot import Control
from messagestore_operator.settings import DriverSettings

_RBAC = "rbac.authorization.k8s.io"
_FRESH_SECONDS = 5.0
"""How long a namespace is taken to have its drivers' account: it may be deleted, and made again without it."""


class Launcher:
    """Makes runs."""

    def __init__(
        self, client: KubeClient, backend: SparkBackend, cache: Cache, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._client = client
        self._backend = backend
        self._cache = cache
        self._clock = clock
        self._prepared: dict[str, float] = {}

    async def launch(self, launch: Launch) -> None:
        """Make a run, or what is missing of it.

        Raises:
            ValueError: the run asks for what its backend doesn't allow.
            InvalidError: the API server refuses a part of it.
            ApiError: anything else; done again, it goes on from there.
        """
        application = self._backend.render(launch)
        await self._prepare(launch.run.run.namespace, launch.driver)
        config_map = await self._config_map(launch)
        for kind, document in ((ROLES, _role(config_map)), (ROLE_BINDINGS, _binding(config_map, launch.driver))):
            await self._make(kind, document)
        made = await self._backend.submit(application)
        self._cache.put({**made, "kind": self._backend.kind.name})
        await self.hand_over(config_map, made)

    async def hand_over(self, config_map: Document, application: Document) -> None:
        """Make the application the owner of its run's ConfigMap."""
        owner = {**document_reference(application), "apiVersion": self._backend.kind.api_version}
        owner["kind"] = self._backend.kind.name
        path = CONFIG_MAPS.path(namespace_of(config_map), name_of(config_map))
        try:
            changed = await self._client.merge_patch(path, {"metadata": {"ownerReferences": [owner]}})
        except NotFoundError:
            return
        self._cache.put({**changed, "kind": CONFIG_MAPS.name})

    async def mend(self, namespace: str, name: str) -> None:
        """Hand a ConfigMap over where the operator was killed just before that."""
        run = self._cache.run((namespace, name))
        if run.config_map is None or run.application is None:
            return
        if at(run.config_map, "metadata", "ownerReferences", 0, "kind") != self._backend.kind.name:
            await self.hand_over(run.config_map, run.application)

    async def _prepare(self, namespace: str, driver: DriverSettings) -> None:
        """The drivers' ServiceAccount and their right to make executors, where that is left to the operator."""
        now, then = self._clock(), self._prepared.get(namespace)
        if driver.cluster_role is None or (then is not None and now - then < _FRESH_SECONDS):
            return
        metadata = {"name": driver.service_account, "namespace": namespace, "labels": {MANAGED_BY: MANAGER}}
        account = {"metadata": {**metadata, **({"annotations": driver.annotations} if driver.annotations else {})}}
        await self._make(SERVICE_ACCOUNTS, account)
        role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": driver.cluster_role}
        await self._make(ROLE_BINDINGS, {"metadata": metadata, "roleRef": role, "subjects": [_subject(driver)]})
        self._prepared[namespace] = now

    async def _config_map(self, launch: Launch) -> Document:
        run = launch.run.run
        data = {
            DOCUMENT: launch.run.document.model_dump_json(by_alias=True, exclude_none=True),
            CONTROL: control_text(launch.run.control),
        }
        document = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.name,
            "metadata": {
                "name": run.name,
                "namespace": run.namespace,
                "labels": run_labels(run, launch.owner),
                "annotations": run_annotations(run),
                "ownerReferences": [owner_reference(launch.owner)],
            },
            "data": data,
        }
        try:
            made = await self._client.create(CONFIG_MAPS.path(run.namespace), document)
        except AlreadyExistsError:
            made = await self._same_config_map(run.namespace, run.name, data)
        self._cache.put({**made, "kind": CONFIG_MAPS.name})
        return made

    async def _same_config_map(self, namespace: str, name: str, data: dict[str, str]) -> Document:
        """What a killed operator left; brought up to date while no driver has read it, such as with a newer epoch."""
        path = CONFIG_MAPS.path(namespace, name)
        known = await self._client.get(path)
        if at(known, "data", DOCUMENT) == data[DOCUMENT]:
            return known
        if await self._client.find(self._backend.kind.path(namespace, name)) is not None:
            return known
        return await self._client.merge_patch(path, {"data": data})

    async def _make(self, kind: Kind, document: dict[str, Any]) -> None:
        body = {"apiVersion": kind.api_version, "kind": kind.name, **document}
        try:
            await self._client.create(kind.path(namespace_of(body)), body)
        except AlreadyExistsError:
            return


def control_text(control: Control) -> str:
    """What a driver is told while it runs, as its ConfigMap holds it."""
    return json.dumps({"stop": control.stop, "messagesPerSecond": control.messages_per_second})


def _role(config_map: Document) -> dict[str, Any]:
    """The right to read and change one ConfigMap, and nothing else."""
    rule = {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": [name_of(config_map)],
        "verbs": ["get", "patch"],
    }
    return {"metadata": _beside(config_map), "rules": [rule]}


def _binding(config_map: Document, driver: DriverSettings) -> dict[str, Any]:
    role = {"apiGroup": _RBAC, "kind": "Role", "name": name_of(config_map)}
    subject = {**_subject(driver), "namespace": namespace_of(config_map)}
    return {"metadata": _beside(config_map), "roleRef": role, "subjects": [subject]}


def _subject(driver: DriverSettings) -> dict[str, Any]:
    return {"kind": SERVICE_ACCOUNTS.name, "name": driver.service_account}


def _beside(config_map: Document) -> dict[str, Any]:
    """Metadata of what goes with a ConfigMap."""
    owner = {**document_reference({**config_map, "apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.name})}
    return {
        "name": name_of(config_map),
        "namespace": namespace_of(config_map),
        "labels": dict(at(config_map, "metadata", "labels") or {}),
        "ownerReferences": [owner],
    }
