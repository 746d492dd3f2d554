"""The limits for tenants, a group of the operator's settings."""

from typing import Annotated

from pydantic import AfterValidator, Field

from messagestore_operator.api.model import Model
from messagestore_operator.api.spark_conf import ALLOWED_CONF
from messagestore_operator.names import GROUP
from messagestore_operator.tenancy.adoption import Adoption
from messagestore_operator.tenancy.sizes import SizeBounds
from messagestore_operator.tenancy.storage import StorageBounds

USE_LABEL = f"{GROUP}/use"
"""The label of a Secret with its allowed uses, separated by dots."""


class SecretBounds(Model):
    """Limits for Secrets."""

    require_label: bool = Field(
        default=True,
        description="Use a Secret only if its label messagestore.dev/use allows that. To check it, the operator reads "
        "the metadata of Secrets.",
    )


def _known(name: str) -> str:
    if name not in ALLOWED_CONF:
        raise ValueError("no resource may give this Spark setting, whatever is allowed here")
    return name


AllowedConf = Annotated[str, Field(strict=True, min_length=1, max_length=253), AfterValidator(_known)]
AllowedImage = Annotated[str, Field(strict=True, min_length=1, max_length=512, pattern=r"^[^*\s]+([/:@]\*)?$")]
"""An image's name, or a prefix of names: ``registry/team/*``, ``registry/team/spark:*``."""
LabelName = Annotated[str, Field(strict=True, max_length=317, pattern=r"^([a-z0-9.-]{1,253}/)?[A-Za-z0-9._-]{1,63}$")]


class KafkaBounds(Model):
    """Limits for connections to Kafka."""

    allow_plaintext_sasl: bool = Field(
        default=False,
        description="Allow protocol SASL_PLAINTEXT, which sends credentials and messages without TLS, and token "
        "endpoints with http.",
    )


AllowedHost = Annotated[
    str, Field(strict=True, max_length=253, pattern=r"^(\*\.)?[a-z0-9:\[\]]([a-z0-9.:\[\]-]*[a-z0-9\]])?$")
]
"""A host in small letters, or ``*.`` and the end of hosts."""


class HttpBounds(Model):
    """Limits for HTTP endpoints."""

    hosts: Annotated[tuple[AllowedHost, ...], Field(max_length=256)] = Field(
        default=(),
        description="Hosts that replays may send to. *.example.org is for all below example.org. If empty, none.",
    )
    allow_private: bool = Field(
        default=False,
        description="Let their names stand for addresses of private networks, such as Services of the cluster. "
        "Loopback and link-local addresses and metadata services are always refused.",
    )


class Tenancy(Model):
    """What resources may ask for; by default, only what stays within their own namespace."""

    adoptions: Annotated[tuple[Adoption, ...], Field(max_length=1000)] = Field(
        default=(), description="Tables (uri, from, to) that another namespace may take over after their owner is gone."
    )
    images: Annotated[tuple[AllowedImage, ...], Field(max_length=256)] = Field(
        default=(),
        description="Images that resources may name, besides the operator's. A * at the end, after /, : or @, matches "
        "any ending.",
    )
    conf: Annotated[tuple[AllowedConf, ...], Field(max_length=256)] | None = Field(
        default=None, description="Spark settings that resources may give. If absent, all that their definitions list."
    )
    labels: Annotated[tuple[LabelName, ...], Field(max_length=64)] = Field(
        default=(),
        description="Labels that SparkApplications and pods get from their resource, such as a scheduler's queue.",
    )
    sizes: SizeBounds = Field(default=SizeBounds(), description="The largest run that a resource may ask for.")
    secrets: SecretBounds = Field(default=SecretBounds(), description="Which Secrets runs may use.")
    http: HttpBounds = Field(default=HttpBounds(), description="Which HTTP endpoints replays may send to.")
    kafka: KafkaBounds = Field(default=KafkaBounds(), description="How runs may connect to Kafka.")
    storage: StorageBounds = Field(default=StorageBounds(), description="Which folders resources may name.")
