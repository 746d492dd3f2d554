"""The bounds that hold for every tenant: a group of the operator's settings."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from messagestore_operator.api.model import Model
from messagestore_operator.tenancy.adoption import Adoption
from messagestore_operator.tenancy.images import AllowedImage
from messagestore_operator.tenancy.kafka import KafkaBounds
from messagestore_operator.tenancy.secrets import SecretBounds
from messagestore_operator.tenancy.sizes import SizeBounds
from messagestore_operator.tenancy.storage import StorageBounds


class Tenancy(Model):
    """What resources may ask for; the default allows what stays within their own namespace."""

    adoptions: Annotated[tuple[Adoption, ...], Field(max_length=1000)] = Field(
        default=(), description="Tables that may go from one namespace to another, where no owner is left to ask."
    )
    images: Annotated[tuple[AllowedImage, ...], Field(max_length=256)] = Field(
        default=(),
        description="Images that resources may name for their runs, beside the operator's own; one that ends in * "
        "after /, : or @ stands for all that begin so.",
    )
    sizes: SizeBounds = Field(default=SizeBounds(), description="The largest run that a resource may ask for.")
    secrets: SecretBounds = Field(default=SecretBounds(), description="Secrets that runs use.")
    kafka: KafkaBounds = Field(default=KafkaBounds(), description="Connections to Kafka.")
    storage: StorageBounds = Field(default=StorageBounds(), description="Folders that resources name.")
