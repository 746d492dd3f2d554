"""Checks a resource against the limits of tenancy."""

from __future__ import annotations

from typing import Any

from messagestore_operator.api import Resource
from messagestore_operator.api.spark import Spark
from messagestore_operator.tenancy.conf import conf_not_allowed
from messagestore_operator.tenancy.endpoints import endpoints_not_allowed
from messagestore_operator.tenancy.images import images_not_allowed
from messagestore_operator.tenancy.kafka import refused_protocols
from messagestore_operator.tenancy.settings import Tenancy
from messagestore_operator.tenancy.sizes import sizes_not_allowed
from messagestore_operator.tenancy.storage import folders_not_allowed
from messagestore_operator.translate.refusal import RefusedField


def not_allowed(resource: Resource, tenancy: Tenancy) -> tuple[RefusedField, ...]:
    """The fields that exceed limits of the settings; each message names the setting."""
    return (
        *images_not_allowed(_spark(resource), tenancy.images),
        *conf_not_allowed(_spark(resource), tenancy.conf),
        *sizes_not_allowed(_spark(resource), tenancy.sizes),
        *folders_not_allowed(resource, tenancy.storage),
        *endpoints_not_allowed(resource),
        *refused_protocols(resource, tenancy.kafka),
    )


def _spark(resource: Resource) -> Spark:
    """The optional spark block, which all kinds have."""
    spec: Any = getattr(resource, "spec")  # noqa: B009 - each kind has its own
    return spec.spark or Spark()
