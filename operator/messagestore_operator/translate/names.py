"""Names that outlive a run, so they are functions of what they name."""

from __future__ import annotations

import hashlib
import json

from messagestore_operator.api import MessageStream, ReplayJob, Resource


def run_name(resource: Resource, kind: str, short_id: str) -> str:
    """The name of one run."""
    return f"{resource.metadata.name}-{kind}-{short_id}"


def source_id(stream: MessageStream) -> str:
    """Names what a stream has read from its source; a changed source has another one, and begins anew."""
    source = stream.spec.source
    place = ["files", source.files.uri.rstrip("/")] if source.files else ["kafka"]
    return f"source-{_digest([stream.metadata.namespace, stream.metadata.name, *place])[:24]}"


def job_id(job: ReplayJob) -> str:
    """Names one replay over all its runs. A job made again in a cluster has another uid, and replays again."""
    parts = [job.metadata.namespace, job.metadata.name, *([job.metadata.uid[:8]] if job.metadata.uid else [])]
    return ".".join(parts)


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
