"""Names that must stay the same, and so are computed from what they name."""

import hashlib
import json
import re

from messagestore_operator.api import MessageStream, ReplayJob, Resource
from messagestore_operator.api.sources import Source

_SENT = {"stream_ref", "origin", "select", "order", "mark", "destination"}
MAX_RUN_NAME = 50
"""Maximum length, as Spark appends suffixes for its pods and services."""


def run_name(resource: Resource, kind: str, short_id: str) -> str:
    """The name of one run."""
    return f"{resource.metadata.name}-{kind}-{short_id}"


def numbered_run_name(resource: Resource, kind: str, number: int) -> str:
    """The name of a run in a cluster: a DNS-1035 label, always the same for a run.

    Resources whose long names begin alike have different names of runs, and so has a resource that was created again.
    """
    known = [resource.metadata.namespace, resource.metadata.name, resource.metadata.uid or "", str(number)]
    ending = f"-{kind}-{number}-{_digest(known)[:8]}"
    name = re.sub("[^a-z0-9]+", "-", resource.metadata.name)
    prefix = name if name[:1].isalpha() else f"x-{name}"
    return prefix[: MAX_RUN_NAME - len(ending)].rstrip("-") + ending


def source_id(stream: MessageStream) -> str:
    """The id of a stream's source, under which its offsets are kept; a changed source starts from its beginning."""
    return _read_from(stream, "source", stream.spec.source)


def updates_id(stream: MessageStream) -> str:
    """The id of a stream's source of status updates, like ``source_id`` for messages."""
    assert stream.spec.lifecycle is not None
    return _read_from(stream, "updates", stream.spec.lifecycle.source)


def job_id(job: ReplayJob) -> str:
    """The id of one replay, for all its runs. In a cluster, a job that is created again has another id."""
    parts = [job.metadata.namespace, job.metadata.name, *([job.metadata.uid[:8]] if job.metadata.uid else [])]
    return ".".join(parts)


def request_digest(job: ReplayJob) -> str | None:
    """A digest of what a job sends where, as a job may be made again under its name; None in a cluster, with other ids.

    Fields that have their defaults don't count, so that it stays the same in later releases.
    """
    if job.metadata.uid:
        return None
    spec = job.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True, include=_SENT)
    if (destination := spec.get("destination")) is not None:
        for place in ("files", "kafka"):
            for access in ("storage", "security"):
                destination.get(place, {}).pop(access, None)
        if job.spec.destination is not None and (http := job.spec.destination.http) is not None:
            destination["http"] = http.url
    return _digest([json.dumps(spec, sort_keys=True)])


def _read_from(stream: MessageStream, what: str, source: Source) -> str:
    # Offsets are kept by topic ids, which differ between clusters and topics of the same name.
    files = source.files
    again = [str(files.reread_nonce)] if files and files.reread_nonce else []
    location = ["files", files.uri.rstrip("/"), *again] if files else ["kafka"]
    return f"{what}-{_digest([stream.metadata.namespace, stream.metadata.name, *location])[:24]}"


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
