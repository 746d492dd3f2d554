"""Labels and names of the objects that the operator makes, by which it finds them."""

from __future__ import annotations

from messagestore_operator.api.resource import GROUP

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "message-store-operator"
RUN = f"{GROUP}/run"
RUN_KIND = f"{GROUP}/kind"

RESOURCE_LABELS = {
    "MessageStream": f"{GROUP}/stream",
    "RetentionPolicy": f"{GROUP}/policy",
    "ReplayJob": f"{GROUP}/replay",
}
"""By the kind of a resource: the label that holds its name on all that belongs to it."""

SELECTOR = f"{MANAGED_BY}={MANAGER}"
"""Finds what the operator made, and nothing else."""

FIELD_MANAGER = "message-store-operator"
FINALIZER = f"{GROUP}/data"
