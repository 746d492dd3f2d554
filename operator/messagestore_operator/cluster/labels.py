"""Labels and names of the objects that the operator creates, by which it finds them."""

from __future__ import annotations

from messagestore_operator.api.resource import GROUP

RUN = f"{GROUP}/run"
RUN_KIND = f"{GROUP}/kind"

RESOURCE_LABELS = {
    "MessageStream": f"{GROUP}/stream",
    "RetentionPolicy": f"{GROUP}/policy",
    "ReplayJob": f"{GROUP}/replay",
}
"""For each kind, the label with the resource's name on all its objects."""

FINALIZER = f"{GROUP}/data"
