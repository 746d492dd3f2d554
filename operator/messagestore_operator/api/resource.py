"""The common part of all resources: API version, kind and metadata."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import ConfigDict, Field

from messagestore_core.contract.base import Integer
from messagestore_operator.api import rules
from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import Name
from messagestore_operator.names import API_VERSION

StringMap = Annotated[dict[str, str], Field(strict=True)]


class Metadata(Model):
    """The fields of Kubernetes' metadata that this project reads; others are ignored."""

    model_config = ConfigDict(extra="ignore")

    name: Name = Field(description="Name of the resource.")
    namespace: Name = Field(default="default", description="Namespace of the resource.")
    labels: StringMap = Field(default={}, description="Labels, for selectors.")
    annotations: StringMap = Field(default={}, description="Annotations, requests to the operator among them.")
    uid: str | None = Field(default=None, description="Unique identifier, given by the API server.")
    generation: Integer | None = Field(default=None, description="Number of the spec's version.")
    resource_version: str | None = Field(default=None, description="Version of the whole resource.")
    creation_timestamp: str | None = Field(default=None, description="When the resource was created.")
    deletion_timestamp: str | None = Field(default=None, description="When its deletion was requested.")
    finalizers: Annotated[tuple[str, ...], Field(max_length=100)] = Field(
        default=(), description="Finalizers that keep it from being deleted."
    )
    managers: StringMap = Field(
        default={}, description="Who wrote its spec and each annotation last, by managedFields."
    )


class Resource(Model):
    """The base of the three kinds."""

    validations = (rules.NAME_OF_RESOURCE,)

    api_version: Literal["messagestore.dev/v1alpha1"] = Field(default=API_VERSION, description="API version.")
    metadata: Metadata = Field(description="Name, namespace, labels and annotations.")
    if TYPE_CHECKING:
        # Each kind has its own types of these.
        kind: Any
        spec: Any
        status: Any

    @property
    def identity(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return (str(self.kind), self.metadata.namespace, self.metadata.name)
