"""The rules of kstatus, the library of kubectl and Flux, for custom resources."""

from typing import Any, Literal

Verdict = Literal["Terminating", "InProgress", "Failed", "Current"]


def verdict(document: dict[str, Any]) -> Verdict:
    """The status of the resource for Flux's `wait: true`.

    Checked in this order: it is being deleted, its status is about another generation, Reconciling or Stalled is True
    (the first of them), Ready is not. A resource without a status is current.
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
