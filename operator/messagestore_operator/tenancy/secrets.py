"""Which Secrets of their namespace resources may use."""

from __future__ import annotations

from pydantic import Field

from messagestore_operator.api.model import Model
from messagestore_operator.api.resource import GROUP

USE_LABEL = f"{GROUP}/use"
"""The label of a Secret that says what it may be used for; several uses stand with dots between them."""


class SecretBounds(Model):
    """What is asked of a Secret before a run gets it."""

    require_label: bool = Field(
        default=True,
        description="Use a Secret only if its label messagestore.dev/use allows that. To check it, the operator reads "
        "the metadata of Secrets.",
    )
