"""Annotations with which people request actions that are done once, and so are not in the spec."""

import json
import re

from messagestore_core.clock import in_utc
from messagestore_core.contract.replay import Reset, StartPoint
from messagestore_core.contract.stores import FormerOwner
from messagestore_operator.api import MessageStream, ReplayJob, Resource, RetentionPolicy
from messagestore_operator.names import ADOPT_TABLE, RESET_TO, RUN_REQUESTED, approved_previews

_LONGEST = 1024
"""Of a value that the status repeats; nested as deep as this allows, JSON is still read."""


def adopts(stream: MessageStream) -> bool:
    """Whether the stream adopts its folder from another owner; the annotation must name exactly that folder."""
    uri = stream.metadata.annotations.get(ADOPT_TABLE, "")
    return uri.rstrip("/") == stream.spec.table.uri.rstrip("/")


def adopts_from(stream: MessageStream) -> tuple[FormerOwner, ...]:
    """The owners whose folder the stream may take over without their consent: all of its namespace."""
    return (FormerOwner(namespace=stream.metadata.namespace),) if adopts(stream) else ()


def run_requested(resource: Resource) -> str | None:
    """The value that requests a run, or as much of it as a status holds; each new value requests one."""
    return resource.metadata.annotations.get(RUN_REQUESTED, "")[:_LONGEST] or None


def reset_requested(job: ReplayJob) -> str | None:
    """The value that asks to move a subscription's cursor; each new value moves it once."""
    return (job.metadata.annotations.get(RESET_TO) or None) if job.spec.start is not None else None


class UnknownDestinationError(ValueError):
    """A reset names a destination that the replay doesn't have."""


def reset_to(job: ReplayJob) -> Reset | None:
    """Where a subscription's cursors are to be moved: Beginning, Now, a global position, or a time of RFC 3339 in UTC.

    Raises:
        ValueError: the value is none of these, and no JSON object.
    """
    text = reset_requested(job)
    return None if text is None or _is_by_name(text) else _reset(text)


def resets_by_name(job: ReplayJob) -> dict[str, Reset]:
    """Where the cursors of some of several destinations are to be moved, from a JSON object by their names.

    Raises:
        ValueError: the value is no such object, or names no destination.
    """
    text = reset_requested(job)
    if text is None or not _is_by_name(text):
        return {}
    if len(text) > _LONGEST:
        raise ValueError("too long")
    by_name = json.loads(text)
    unknown = by_name.keys() - {to.name for to in job.spec.destinations}
    # What was carried out may name one that has been removed since.
    if unknown and (job.status is None or text != job.status.last_handled_reset):
        raise UnknownDestinationError(
            f"names no destination: {', '.join(sorted(unknown))}; must be a JSON object by names of spec.destinations"
        )
    return {name: _reset(str(to)) for name, to in by_name.items() if name not in unknown}


def _is_by_name(text: str) -> bool:
    return text.lstrip().startswith("{")


def _reset(text: str) -> Reset:
    if text == "Beginning":
        return Reset(value=text, to=StartPoint(at="Beginning"))
    if text == "Now":
        return Reset(value=text, to=StartPoint(at="Now"))
    if re.fullmatch("[0-9]{1,15}", text):
        return Reset(value=text, to=StartPoint(global_position=int(text)))
    return Reset(value=text, to=StartPoint(inserted_at=in_utc(text)))


def approvals(policy: RetentionPolicy) -> tuple[str, ...]:
    """The ids of the previews that were approved."""
    return approved_previews(policy.metadata.annotations)
