"""The images that a resource may name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

from pydantic import Field

from messagestore_operator.api.spark import Spark
from messagestore_operator.translate.refusal import RefusedField

AllowedImage = Annotated[str, Field(strict=True, min_length=1, max_length=512, pattern=r"^[^*\s]+([/:@]\*)?$")]
"""An image's name, or a prefix of names: ``registry/team/*``, ``registry/team/spark:*``."""


def images_not_allowed(spark: Spark, allowed: Iterable[str]) -> Iterator[RefusedField]:
    """The image of a resource if it is not allowed; a resource without one gets the operator's."""
    if spark.image and not any(_fits(spark.image, one) for one in allowed):
        words = f"{spark.image} is none of the images that the operator's settings allow (tenancy.images)"
        yield RefusedField(("spec", "spark", "image"), words)


def _fits(image: str, allowed: str) -> bool:
    beginning, star, _ = allowed.partition("*")
    if not star:
        return image == allowed
    # After a name comes a tag or a digest, not a port and a path.
    return image.startswith(beginning) and (beginning.endswith("/") or "/" not in image.removeprefix(beginning))
