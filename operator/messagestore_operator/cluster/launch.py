"""Creates the objects of a run: its application, then its ConfigMap, and in parallel the driver's right to report.

The application owns the ConfigMap. So the cluster's garbage collection removes it, wherever the operator is killed and
whatever is deleted first. A driver's pod starts only when there is the ConfigMap. Existing objects stay as they are:
they were created for the same run before the operator was killed.
"""

import json
from typing import Any

from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.drivers import Drivers
from messagestore_operator.cluster.kubeflow import application
from messagestore_operator.cluster.labels import owner_uids, run_annotations, run_labels
from messagestore_operator.cluster.pods import Launch
from messagestore_operator.cluster.reports import CONTROL, DOCUMENT
from messagestore_operator.decide.snapshot import DriverControl, ObservedRun
from messagestore_operator.kube.client import AlreadyExistsError, ApiError, KubeClient
from messagestore_operator.kube.objects import CONFIG_MAPS, SPARK_APPLICATIONS, ApiObject, at, name_of


class LaunchRefusedError(Exception):
    """The API server refuses the run, which has no application. The message is the server's."""


class Launcher:
    """Makes runs."""

    def __init__(self, client: KubeClient, cache: Cache, drivers: Drivers) -> None:
        self._client = client
        self._cache = cache
        self._drivers = drivers

    async def launch(self, launch: Launch) -> None:
        """Create a run's missing objects.

        Raises:
            LaunchRefusedError: one of them is refused.
            ApiError: anything else; another call continues from there.
        """
        run = launch.run.run
        place = SPARK_APPLICATIONS.path(run.namespace, run.name)
        try:
            wanted = application(launch)
        except ValueError as error:
            raise LaunchRefusedError(str(error)) from error
        try:
            await self._drivers.prepare(run.namespace)
            made = await self._submit(run.namespace, wanted)
        except ApiError as error:
            # An earlier request may have arrived late, and its application may now fill the quota.
            if not error.refused or await self._client.find(place) is not None:
                raise
            raise LaunchRefusedError(error.message) from error
        _check_owner(made, SPARK_APPLICATIONS.name, launch.owner.metadata.uid)
        self._cache.put({**made, "kind": SPARK_APPLICATIONS.name})
        await self._give_config_map(launch, made)
        self._drivers.let_report(run.namespace, run.name)

    def finish(self, run: ObservedRun) -> None:
        """Let the driver of a run report, if the operator was killed just after it created the run's objects."""
        if run.config_map and not run.state.ended:
            self._drivers.let_report(run.ref.namespace, run.ref.name)

    async def _submit(self, namespace: str, wanted: ApiObject) -> ApiObject:
        """Create an application; an existing one is returned unchanged."""
        try:
            return await self._client.create(SPARK_APPLICATIONS.path(namespace), wanted)
        except AlreadyExistsError:
            return await self._client.get(SPARK_APPLICATIONS.path(namespace, name_of(wanted)))

    async def _give_config_map(self, launch: Launch, made: ApiObject) -> None:
        """Create the run's ConfigMap, or delete the application: its driver must not read another's."""
        run, uid = launch.run.run, str(at(made, "metadata", "uid"))
        try:
            config_map = await self._config_map(launch, uid)
        except (LaunchRefusedError, ApiError) as error:
            if isinstance(error, ApiError) and not error.refused:
                raise
            await self._client.delete(SPARK_APPLICATIONS.path(run.namespace, run.name), uid)
            raise LaunchRefusedError(error.message if isinstance(error, ApiError) else str(error)) from error
        self._cache.put({**config_map, "kind": CONFIG_MAPS.name})

    async def _config_map(self, launch: Launch, uid: str) -> ApiObject:
        """The run's ConfigMap, created or the same from an earlier request."""
        run, kind = launch.run.run, SPARK_APPLICATIONS
        owner = {"apiVersion": kind.api_version, "kind": kind.name, "name": run.name, "uid": uid}
        text = launch.run.document.model_dump_json(by_alias=True, exclude_none=True)
        document = {
            "apiVersion": CONFIG_MAPS.api_version,
            "kind": CONFIG_MAPS.name,
            "metadata": {
                "name": run.name,
                "namespace": run.namespace,
                "labels": run_labels(run, launch.owner),
                "annotations": run_annotations(run),
                "ownerReferences": [{**owner, "controller": True}],
            },
            "data": {DOCUMENT: text, CONTROL: control_text(launch.run.control)},
        }
        try:
            return await self._client.create(CONFIG_MAPS.path(run.namespace), document)
        except AlreadyExistsError:
            known = await self._client.get(CONFIG_MAPS.path(run.namespace, run.name))
        _check_owner(known, CONFIG_MAPS.name, uid if at(known, "data", DOCUMENT) == text else None)
        return known


def _check_owner(document: ApiObject, kind: str, uid: str | None) -> None:
    """Raise LaunchRefusedError if an object that has the run's name is not the run's, by the uid of its owner."""
    if uid not in owner_uids(document):
        raise LaunchRefusedError(
            f"there is a {kind} {name_of(document)} that this run did not make: delete it, or ask whoever made it"
        )


def control_text(control: DriverControl) -> str:
    """The text of ``control.json`` in a run's ConfigMap."""
    fields: dict[str, Any] = {"stop": control.stop, "messagesPerSecond": control.messages_per_second}
    if control.maintain is not None:
        fields["maintain"] = control.maintain.model_dump(mode="json", by_alias=True, exclude_none=True)
    return json.dumps(fields)
