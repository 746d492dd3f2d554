"""The interface to the backend that runs Spark applications in the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from messagestore_core.logs import LogFormat
from messagestore_operator.api.resource import Resource
from messagestore_operator.cluster.reports import Reading
from messagestore_operator.decide.actions import CreateRun
from messagestore_operator.decide.snapshot import ObservedRun
from messagestore_operator.kube.objects import ApiObject, Kind
from messagestore_operator.settings import DriverSettings, SparkSettings


@dataclass(frozen=True)
class Launch:
    """A run to create: the decision's run, its resource, and what settings say of its application and its log."""

    run: CreateRun
    owner: Resource
    spark: SparkSettings
    driver: DriverSettings
    passed_on: tuple[str, ...] = ()
    """Labels of the resource that its applications and pods get, too."""
    log_format: LogFormat = "text"

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the run's application and pods, such as a scheduler's."""
        own = self.owner.metadata.labels
        return {name: own[name] for name in self.passed_on if name in own}


@dataclass(frozen=True)
class RunParts:
    """The objects of a run in the cluster; None for missing ones."""

    application: ApiObject | None = None
    config_map: ApiObject | None = None
    driver: ApiObject | None = None
    executors: tuple[ApiObject, ...] = ()
    lost_executors: Mapping[str, str] = field(default_factory=dict)
    """Names of failed executors, whose pods may be gone, with the reason, such as OOMKilled."""
    reading: Reading = field(default_factory=Reading)
    """The report in its ConfigMap."""


class SparkBackend(Protocol):
    """Creates and observes the applications of runs: one per run, never changed, never restarted."""

    @property
    def kind(self) -> Kind:
        """The kind of its applications. They are watched and have their runs' names."""
        ...

    def render(self, launch: Launch) -> dict[str, Any]:
        """The application of a run: a pure function, so that a run always has the same application.

        Raises:
            ValueError: the run asks for a Spark setting that is not allowed.
        """
        ...

    async def submit(self, application: ApiObject) -> ApiObject:
        """Create the application; an existing one is returned unchanged.

        Raises:
            InvalidError: the API server refuses it.
            ApiError: anything else.
        """
        ...

    def observe(self, parts: RunParts) -> ObservedRun | None:
        """The state of a run: a pure function; None if the objects don't name their run."""
        ...

    def driver_name(self, run: str) -> str:
        """The name of a run's driver pod."""
        ...

    async def delete(self, namespace: str, name: str, uid: str) -> bool:
        """Delete an application and its pods; False if there was none.

        Raises:
            ConflictError: there is one of that name with another uid, which stays.
        """
        ...
