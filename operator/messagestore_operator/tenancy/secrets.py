"""The Secrets that resources may use, all in their own namespace."""

from __future__ import annotations

from pydantic import Field

from messagestore_operator.api.model import Model
from messagestore_operator.api.resource import GROUP

USE_LABEL = f"{GROUP}/use"
"""The label of a Secret with its allowed uses, separated by dots."""


class SecretBounds(Model):
    """Limits for Secrets."""

    require_label: bool = Field(
        default=True,
        description="Use a Secret only if its label messagestore.dev/use allows that. To check it, the operator reads "
        "the metadata of Secrets.",
    )
