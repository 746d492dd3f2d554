"""Labels and names of the objects that the operator creates, by which it finds them."""

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
"""For each kind, the label with the resource's name on all its objects."""

SELECTOR = f"{MANAGED_BY}={MANAGER}"
"""Selects only objects that the operator created."""

FIELD_MANAGER = "message-store-operator"
FINALIZER = f"{GROUP}/data"
