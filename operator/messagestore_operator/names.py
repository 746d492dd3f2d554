"""Names that people and other programs use: of the kinds, of annotations, and of runs' objects.

This imports no models, so that a command that only talks to the API server starts at once.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

GROUP = "messagestore.dev"
VERSION = "v1alpha1"
API_VERSION: Literal["messagestore.dev/v1alpha1"] = "messagestore.dev/v1alpha1"


@dataclass(frozen=True)
class Names:
    """The names of a kind in URLs and on kubectl's command line."""

    plural: str
    short: str


NAMES: Mapping[str, Names] = {
    "MessageStream": Names("messagestreams", "mst"),
    "RetentionPolicy": Names("retentionpolicies", "mrp"),
    "ReplayJob": Names("replayjobs", "mrj"),
}

_BEGINNING_LENGTH = 40

# Annotations with which people request actions that are done once, and so are not in the spec.
ADOPT_TABLE = f"{GROUP}/adopt-table"
APPROVED_BY = f"{GROUP}/approved-by"
APPROVED_PREVIEW = f"{GROUP}/approved-preview"
PAUSED = f"{GROUP}/paused"
"""Annotation of a namespace."""
RELEASE_TABLE_TO = f"{GROUP}/release-table-to"
RESET_TO = f"{GROUP}/reset-to"
RUN_REQUESTED = f"{GROUP}/run-requested"

RUN = f"{GROUP}/run"
"""The label of all objects of a run, with its name."""
DRIVER = "spark-kubernetes-driver"
"""Spark's name for the driver's container in a pod template."""
DRIVER_ENDING = "-driver"
"""The name of a driver's pod is its run's with this ending; no executor's has it."""
REPORT = "report.json"
"""The key of a run's report in its ConfigMap."""
TABLE = f"{GROUP}/table"
"""Annotation of a Lease: the namespace, the object store's endpoint and the table's URI."""


def approved_previews(annotations: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of the previews that annotations approve: one for each stream, with commas between."""
    return tuple(re.findall(r"[^\s,]+", annotations.get(APPROVED_PREVIEW, "")))


def named_after(name: str, what: str) -> str:
    """The name of an object about another one, with as much of the other's name as leaves room for ``what``."""
    return f"{name[:_BEGINNING_LENGTH].rstrip('.-')}-{what}"
