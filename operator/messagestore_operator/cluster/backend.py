"""What the backend makes the application of a run of."""

from dataclasses import dataclass

from messagestore_core.logs import LogFormat
from messagestore_operator.api.resource import Resource
from messagestore_operator.decide.actions import CreateRun
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
