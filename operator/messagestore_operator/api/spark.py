"""The spark block, the same for all three kinds: size of a run's pods, and a few tuning settings."""

import re
from typing import Annotated

from pydantic import Field

from messagestore_core.contract.base import Integer
from messagestore_operator.api import rules
from messagestore_operator.api.model import Model
from messagestore_operator.api.spark_conf import describe_conf

Memory = Annotated[str, Field(strict=True, max_length=16, pattern="^[1-9][0-9]{0,6}[kmgtKMGT]$")]


_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def bytes_of(size: str) -> int:
    """The bytes of a size as Spark writes it. Without a unit, as memory overhead may be, it is in MiB."""
    number, unit = re.fullmatch(r"([0-9]+)([a-z]?)b?", size.lower()).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[unit or "m"]


class DriverResources(Model):
    """The size of the driver's pod."""

    cores: Annotated[Integer, Field(ge=1, le=256)] | None = Field(default=None, description="CPU cores of the driver.")
    memory: Memory | None = Field(
        default=None, description="Heap of the driver as Spark writes it, such as 512m or 2g."
    )


class ExecutorResources(Model):
    """The number and the size of the executors' pods."""

    instances: Annotated[Integer, Field(ge=1, le=10000)] | None = Field(
        default=None, description="Number of executors."
    )
    cores: Annotated[Integer, Field(ge=1, le=256)] | None = Field(
        default=None, description="CPU cores of each executor."
    )
    memory: Memory | None = Field(
        default=None, description="Heap of each executor as Spark writes it, such as 512m or 2g."
    )


class Spark(Model):
    """Size and settings of a run's Spark application. Absent fields come from the operator's settings."""

    validations = rules.SPARK_CONF

    image: Annotated[str, Field(strict=True, max_length=512)] | None = Field(
        default=None, description="Image of driver and executors. If empty, the operator's."
    )
    driver: DriverResources | None = Field(default=None, description="Size of the driver.")
    executor: ExecutorResources | None = Field(default=None, description="Number and size of the executors.")
    conf: Annotated[dict[str, Annotated[str, Field(strict=True, max_length=32)]], Field(max_length=64)] = Field(
        default={},
        description="Spark settings that neither reach credentials nor load code. The operator's settings take "
        "precedence. Allowed are, by the form of their values: " + describe_conf(),
    )
