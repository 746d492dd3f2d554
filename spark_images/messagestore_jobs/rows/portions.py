"""Portions of records that become dead letters, as the driver holds only some of their bytes at a time."""

import numpy as np
import numpy.typing as npt
from pyspark.sql import SparkSession

from messagestore_jobs.session import heap_bytes

_SHARE_OF_HEAP = 32
"""The driver holds a portion several times: as it came, as rows, as a file."""


def portion_bytes(spark: SparkSession) -> int:
    """The largest size of a portion in bytes, without its last record."""
    return max(1, heap_bytes(spark) // _SHARE_OF_HEAP)


def portions(sizes: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """The portion of each record (0, 1, … with gaps), by their sizes in order."""
    numbers: npt.NDArray[np.int64] = (np.cumsum(sizes) - sizes) // most
    return numbers
