"""Whether a run that needs executors has one, and why the API server refuses to create any.

Spark asks for them again and again, and says why in vain only in warnings with long traces.
"""

import logging
import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from messagestore_core.contract.run_report import ExecutorsRefused
from messagestore_core.text import refusal_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TELLS = "org.apache.spark.scheduler.cluster.k8s.ExecutorPodsSnapshotsStoreImpl"
_NUMBER = re.compile(r"-exec-\d+")
_log = logging.getLogger(__name__)


class Executors:
    """The executors of a run that needs some."""

    def __init__(self, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self._spark: SparkSession | None = None
        self._warnings: Any = None
        self._refused: ExecutorsRefused | None = None

    def watch(self, spark: "SparkSession") -> None:
        """Take what Spark warns of as it asks for executors, instead of having it logged."""
        jvm: Any = spark._jvm
        log4j = jvm.org.apache.logging.log4j
        self._warnings = jvm.java.io.StringWriter()
        layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%throwable{1}%n").build()
        appender = log4j.core.appender.WriterAppender.createAppender(layout, None, self._warnings, _TELLS, False, True)
        appender.start()
        logger = log4j.LogManager.getLogger(_TELLS)
        logger.addAppender(appender)
        logger.setAdditive(False)
        log4j.core.config.Configurator.setLevel(_TELLS, log4j.Level.WARN)
        self._spark = spark

    def refused(self) -> ExecutorsRefused | None:
        """Since when the API server refuses them, and why; None if there is one, or none was refused."""
        if self._spark is None:
            return None
        try:
            said = self._said()
            if self._exist(self._spark):
                self._refused = None
            elif said is not None:
                self._note(said)
        except Exception:
            _log.debug("Spark has ended", exc_info=True)
            return None
        return self._refused

    @staticmethod
    def _exist(spark: "SparkSession") -> bool:
        # Spark counts the driver among them.
        context: Any = spark.sparkContext._jsc
        return len(context.sc().statusTracker().getExecutorInfos()) > 1

    def _note(self, said: str) -> None:
        before = self._refused
        if before is None or before.message != said:
            _log.warning("the API server refuses executors: %s", said)
            self._refused = ExecutorsRefused(since=before.since if before else self._clock(), message=said)

    def _said(self) -> str | None:
        """What Spark has warned of last, as the API server put it."""
        lines = str(self._warnings.toString()).splitlines()
        self._warnings.getBuffer().setLength(0)
        said = next((line for line in reversed(lines) if line.strip()), None)
        if said is None:
            return None
        # Each try is for an executor of another number.
        return _NUMBER.sub("-exec-…", refusal_in(said) or said)
