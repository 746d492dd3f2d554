"""The largest runs that a resource may ask for."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from messagestore_core.contract.base import Integer
from messagestore_operator.api.model import Model
from messagestore_operator.api.spark import DriverResources, ExecutorResources, Memory, Spark, bytes_of
from messagestore_operator.translate.refusal import RefusedField

_SETTING = "tenancy.sizes"
_MAX_FACTOR = 1.0
"""The memory overhead may be as large as the heap."""
_EXECUTORS = tuple(f"spark.dynamicAllocation.{bound}Executors" for bound in ("initial", "max", "min"))


class DriverBounds(Model):
    """The largest driver."""

    cores: Annotated[Integer, Field(ge=1, le=256)] = Field(default=8, description="CPU cores of the driver.")
    memory: Memory = Field(default="32g", description="Heap of the driver. The memory overhead may be as large.")


class ExecutorBounds(Model):
    """The largest executor, and the maximum number of executors."""

    instances: Annotated[Integer, Field(ge=1, le=10_000)] = Field(default=50, description="Executors of a run.")
    cores: Annotated[Integer, Field(ge=1, le=256)] = Field(default=8, description="CPU cores of each executor.")
    memory: Memory = Field(default="32g", description="Heap of each executor. The memory overhead may be as large.")


class SizeBounds(Model):
    """The largest run that a resource may ask for; the operator's own defaults must not exceed it."""

    driver: DriverBounds = Field(default=DriverBounds(), description="The largest driver.")
    executor: ExecutorBounds = Field(default=ExecutorBounds(), description="The largest executors.")


def sizes_not_allowed(spark: Spark, bounds: SizeBounds) -> Iterator[RefusedField]:
    """The fields of a resource's Spark block that exceed a limit."""
    for path, why in (*too_large(spark.driver, spark.executor, bounds), *_conf_too_large(spark.conf, bounds)):
        yield RefusedField(("spec", "spark", *path), why)


def too_large(
    driver: DriverResources | None, executor: ExecutorResources | None, bounds: SizeBounds
) -> Iterator[tuple[tuple[str, ...], str]]:
    """The fields of sizes that exceed their limits, and why they are refused."""
    for name, size, bound in (("driver", driver, bounds.driver), ("executor", executor, bounds.executor)):
        for field, most in bound.given().items():
            value = getattr(size, field, None)
            if value is not None and _amount(value) > _amount(most):
                yield (name, field), _more(value, most, f"{name}.{field}")


def _conf_too_large(conf: dict[str, str], bounds: SizeBounds) -> Iterator[tuple[tuple[str, ...], str]]:
    for role, most in (("driver", bounds.driver.memory), ("executor", bounds.executor.memory)):
        beside = f"spark.{role}.memoryOverhead"
        if beside in conf and _amount(conf[beside]) > _amount(most):
            yield ("conf", beside), _more(conf[beside], most, f"{role}.memory")
        if float(conf.get(f"{beside}Factor", 0)) > _MAX_FACTOR:
            yield ("conf", f"{beside}Factor"), f"{conf[f'{beside}Factor']} is more than {_MAX_FACTOR:g}"
    most_executors = bounds.executor.instances
    for name in _EXECUTORS:
        if name in conf and int(conf[name]) > most_executors:
            yield ("conf", name), _more(conf[name], most_executors, "executor.instances")
    if conf.get("spark.dynamicAllocation.enabled") == "true" and _EXECUTORS[1] not in conf:
        why = f"needs {_EXECUTORS[1]}, at most {most_executors} ({_SETTING}.executor.instances)"
        yield ("conf", "spark.dynamicAllocation.enabled"), why


def _more(value: object, most: object, setting: str) -> str:
    return f"{value} is more than {most}, which the operator's settings allow ({_SETTING}.{setting})"


def _amount(size: int | str) -> int:
    """A number unchanged, or memory in bytes."""
    return size if isinstance(size, int) else bytes_of(size)
