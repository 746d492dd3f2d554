"""Kubeflow's Spark operator as the backend: SparkApplications of v1beta2, one a run, never changed once made."""

from __future__ import annotations

from typing import Any

from messagestore_operator.cluster.api_objects import ApiObject, name_of, namespace_of
from messagestore_operator.cluster.backend.application import API_VERSION, KIND, application
from messagestore_operator.cluster.backend.base import Launch, RunParts
from messagestore_operator.cluster.backend.observe import observed_run
from messagestore_operator.cluster.client import AlreadyExistsError, KubeClient
from messagestore_operator.cluster.kinds import Kind
from messagestore_operator.decide.snapshot import ObservedRun

_GROUP, _VERSION = API_VERSION.split("/")
SPARK_APPLICATIONS = Kind(_GROUP, _VERSION, KIND, "sparkapplications")


class KubeflowBackend:
    """See `SparkBackend`.

    Any change to a SparkApplication's spec would run it again, and a second one of the same name can't be made: so a
    run that is launched twice is launched once.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    @property
    def kind(self) -> Kind:
        """SparkApplication."""
        return SPARK_APPLICATIONS

    def render(self, launch: Launch) -> dict[str, Any]:
        """The SparkApplication of a run."""
        return application(launch)

    async def submit(self, application: ApiObject) -> ApiObject:
        """Make it, or find it made."""
        namespace = namespace_of(application)
        try:
            return await self._client.create(SPARK_APPLICATIONS.path(namespace), application)
        except AlreadyExistsError:
            return await self._client.get(SPARK_APPLICATIONS.path(namespace, name_of(application)))

    def observe(self, parts: RunParts) -> ObservedRun | None:
        """The state of a run."""
        return observed_run(parts)

    def driver_name(self, run: str) -> str:
        """As the Spark operator names it."""
        return f"{run}-driver"

    async def delete(self, namespace: str, name: str) -> bool:
        """Delete it; its pods follow, because it owns them."""
        return await self._client.delete(SPARK_APPLICATIONS.path(namespace, name))
