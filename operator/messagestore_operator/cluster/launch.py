"""Creates the objects of a run: its ConfigMap, then the application, and in parallel the driver's right to report.

The resource owns the ConfigMap until there is an application, which owns it from then on. So the cluster's garbage
collection removes it, wherever the operator is killed and whatever is deleted first. Existing objects stay as they are:
they were created for the same run before the operator was killed.
"""

from __future__ import annotations

import json
from typing import Any

from messagestore_operator.cluster.backend import Launch, SparkBackend
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.drivers import Drivers
from messagestore_operator.cluster.labels import (
    belongs_to,
    document_reference,
    owner_reference,
    owner_uids,
    run_annotations,
    run_labels,
)
from messagestore_operator.cluster.reports import CONTROL, DOCUMENT
from messagestore_operator.decide.snapshot import DriverControl, ObservedRun
from messagestore_operator.kube.client import AlreadyExistsError, ApiError, KubeClient, NotFoundError
from messagestore_operator.kube.objects import CONFIG_MAPS, ApiObject, at, name_of, namespace_of


class LaunchRefusedError(Exception):
    """The API server refuses the run, which has no application. The message is the server's."""


class Launcher:
    """Makes runs."""

    def __init__(self, client: KubeClient, backend: SparkBackend, cache: Cache, drivers: Drivers) -> None:
        self._client = client
        self._backend = backend
        self._cache = cache
        self._drivers = drivers

    async def launch(self, launch: Launch) -> None:
        """Create a run's missing objects.

        Raises:
            LaunchRefusedError: one of them is refused.
            ApiError: anything else; another call continues from there.
        """
        run = launch.run.run
        config_map, made = await self._parts(launch)
        self._drivers.let_report(run.namespace, run.name)
        self._cache.put({**made, "kind": self._backend.kind.name})
        await self.hand_over(config_map, made)

    async def _parts(self, launch: Launch) -> tuple[ApiObject, ApiObject]:
        """The run's ConfigMap and its application."""
        namespace, name = launch.run.run.namespace, launch.run.run.name
        try:
            application = self._backend.render(launch)
        except ValueError as error:
            raise LaunchRefusedError(str(error)) from error
        try:
            await self._drivers.prepare(namespace)
            config_map, made = await self._config_map(launch), await self._backend.submit(application)
        except ApiError as error:
            # An earlier request may have arrived late, and its application may now fill the quota.
            if not error.refused or await self._client.find(self._backend.kind.path(namespace, name)) is not None:
                raise
            raise LaunchRefusedError(error.message) from error
        _check_owner(made, self._backend.kind.name, launch)
        return config_map, made

    async def hand_over(self, config_map: ApiObject, application: ApiObject) -> None:
        """Make the application the owner of its run's ConfigMap."""
        owner = {**document_reference(application), "apiVersion": self._backend.kind.api_version}
        owner["kind"] = self._backend.kind.name
        path = CONFIG_MAPS.path(namespace_of(config_map), name_of(config_map))
        try:
            uid = at(config_map, "metadata", "uid")
            changed = await self._client.merge_patch(path, {"metadata": {"uid": uid, "ownerReferences": [owner]}})
        except NotFoundError:
            return
        self._cache.put({**changed, "kind": CONFIG_MAPS.name})

    async def finish(self, run: ObservedRun) -> None:
        """Finish the launch of a run if the operator was killed just after it created the application.

        Raises:
            ApiError: it can't be done now.
        """
        namespace, name = run.ref.namespace, run.ref.name
        parts = self._cache.run((namespace, name))
        if parts.config_map is None or parts.application is None:
            return
        if not belongs_to(parts.config_map, self._backend.kind.name):
            await self.hand_over(parts.config_map, parts.application)
        if not run.state.ended:
            self._drivers.let_report(namespace, name)

    async def _config_map(self, launch: Launch) -> ApiObject:
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
            made = await self._same_config_map(launch, data)
        self._cache.put({**made, "kind": CONFIG_MAPS.name})
        return made

    async def _same_config_map(self, launch: Launch, data: dict[str, str]) -> ApiObject:
        """The ConfigMap that a killed operator left; it is updated, such as its epoch, as no driver has read it yet."""
        namespace, name = launch.run.run.namespace, launch.run.run.name
        path = CONFIG_MAPS.path(namespace, name)
        known, application = (
            await self._client.get(path),
            await self._client.find(self._backend.kind.path(namespace, name)),
        )
        if application is not None:
            _check_owner(application, self._backend.kind.name, launch)
        _check_owner(known, CONFIG_MAPS.name, launch, application)
        if application is not None or at(known, "data", DOCUMENT) == data[DOCUMENT]:
            return known
        return await self._client.merge_patch(path, {"metadata": {"uid": at(known, "metadata", "uid")}, "data": data})


def _check_owner(document: ApiObject, kind: str, launch: Launch, application: ApiObject | None = None) -> None:
    """Raise LaunchRefusedError if an object that has the run's name is not the run's, by the uid of its owner."""
    if not owner_uids(document) & {launch.owner.metadata.uid or "", str(at(application, "metadata", "uid"))}:
        raise LaunchRefusedError(
            f"there is a {kind} {name_of(document)} that this run did not make: delete it, or ask whoever made it"
        )


def control_text(control: DriverControl) -> str:
    """The text of ``control.json`` in a run's ConfigMap."""
    fields: dict[str, Any] = {"stop": control.stop, "messagesPerSecond": control.messages_per_second}
    if control.maintain is not None:
        fields["maintain"] = control.maintain.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(fields)
