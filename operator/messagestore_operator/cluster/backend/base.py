"""The interface to the backend that runs Spark applications in the cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from messagestore_operator.api.resource import Resource
from messagestore_operator.cluster.api_objects import ApiObject
from messagestore_operator.cluster.kinds import Kind
from messagestore_operator.cluster.reports import Reading
from messagestore_operator.decide.actions import CreateRun
from messagestore_operator.decide.snapshot import ObservedRun
from messagestore_operator.settings import DriverSettings, SparkSettings


@dataclass(frozen=True)
class Launch:
    """A run to be made: what decide asks for, whose it is, and what the settings say besides."""

    run: CreateRun
    owner: Resource
    spark: SparkSettings
    driver: DriverSettings
    passed_on: tuple[str, ...] = ()
    """Labels of the resource that application and pods get too."""

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the run's application and pods, such as a scheduler's."""
        own = self.owner.metadata.labels
        return {name: own[name] for name in self.passed_on if name in own}


@dataclass(frozen=True)
class RunParts:
    """The objects of a run in the cluster, as the API has them; None for a missing one."""

    application: ApiObject | None = None
    config_map: ApiObject | None = None
    driver: ApiObject | None = None
    executors: tuple[ApiObject, ...] = ()
    lost_executors: Mapping[str, str] = field(default_factory=dict)
    """Names of executors that have failed, whose pods may be gone, with the reason, such as OOMKilled."""
    reading: Reading = field(default_factory=Reading)
    """The report in its ConfigMap."""


class SparkBackend(Protocol):
    """Makes the applications of runs and observes them: one for each run, never changed, never restarted."""

    @property
    def kind(self) -> Kind:
        """The kind of its applications: they are watched, and are named as their runs are."""
        ...

    def render(self, launch: Launch) -> dict[str, Any]:
        """The application of a run: a pure function, so that the same run is the same application.

        Raises:
            ValueError: the run asks for a Spark setting that is not allowed.
        """
        ...

    async def submit(self, application: ApiObject) -> ApiObject:
        """Make the application; one that is there already is returned as it is.

        Raises:
            InvalidError: the API server refuses it.
            ApiError: anything else.
        """
        ...

    def observe(self, parts: RunParts) -> ObservedRun | None:
        """The state of a run: a pure function; None where the objects don't say which run they belong to."""
        ...

    def driver_name(self, run: str) -> str:
        """The name of the pod of a run's driver."""
        ...

    async def delete(self, namespace: str, name: str) -> bool:
        """Delete an application and its pods; False where there was none."""
        ...
