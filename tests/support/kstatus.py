"""The rules by which kubectl's and Flux's library kstatus reads a custom resource."""

from typing import Any, Literal

Verdict = Literal["Terminating", "InProgress", "Failed", "Current"]


def verdict(document: dict[str, Any]) -> Verdict:
    """What Flux's `wait: true` makes of the resource.

    In this order: it is being deleted, its status is about another generation, Reconciling or Stalled holds (the one
    that stands first), Ready doesn't. A resource without a status is current.
    """
    metadata, status = document["metadata"], document.get("status", {})
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if "generation" in metadata and status.get("observedGeneration", metadata["generation"]) != metadata["generation"]:
        return "InProgress"
    conditions = status.get("conditions", [])
    for condition in conditions:
        if condition["status"] == "True" and condition["type"] in ("Reconciling", "Stalled"):
            return "InProgress" if condition["type"] == "Reconciling" else "Failed"
    ready = [condition["status"] for condition in conditions if condition["type"] == "Ready"]
    return "Current" if ready in ([], ["True"]) else "InProgress"
