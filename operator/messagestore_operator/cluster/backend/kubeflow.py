"""Kubeflow's Spark operator as the backend: one SparkApplication (v1beta2) per run, never changed."""

from __future__ import annotations

from typing import Any

from messagestore_operator.cluster.backend.application import API_VERSION, KIND, application
from messagestore_operator.cluster.backend.base import Launch, RunParts
from messagestore_operator.cluster.backend.observe import observed_run
from messagestore_operator.cluster.backend.pods import DRIVER_ENDING
from messagestore_operator.decide.snapshot import ObservedRun
from messagestore_operator.kube.client import AlreadyExistsError, KubeClient
from messagestore_operator.kube.objects import ApiObject, Kind, name_of, namespace_of

_GROUP, _VERSION = API_VERSION.split("/")
SPARK_APPLICATIONS = Kind(_GROUP, _VERSION, KIND, "sparkapplications")


class KubeflowBackend:
    """Runs as SparkApplications of the Kubeflow Spark operator.

    A change of a SparkApplication's spec would run it again, so none is made. A second one of the same name can't be
    created, so a repeated launch has no effect.
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
        """Create it, or return the existing one."""
        namespace = namespace_of(application)
        try:
            return await self._client.create(SPARK_APPLICATIONS.path(namespace), application)
        except AlreadyExistsError:
            return await self._client.get(SPARK_APPLICATIONS.path(namespace, name_of(application)))

    def observe(self, parts: RunParts) -> ObservedRun | None:
        """The state of a run."""
        return observed_run(parts)

    def driver_name(self, run: str) -> str:
        """The name that the Spark operator gives it."""
        return f"{run}{DRIVER_ENDING}"

    async def delete(self, namespace: str, name: str, uid: str) -> bool:
        """Delete it; its pods follow, because it owns them."""
        return await self._client.delete(SPARK_APPLICATIONS.path(namespace, name), uid)
