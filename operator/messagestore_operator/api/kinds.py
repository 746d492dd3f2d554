"""The three kinds together, and how a plain document becomes one of them."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from messagestore_operator.api.messagestream import MessageStream
from messagestore_operator.api.replayjob import ReplayJob
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.retentionpolicy import RetentionPolicy

KINDS: Mapping[str, type[MessageStream | RetentionPolicy | ReplayJob]] = {
    "MessageStream": MessageStream,
    "RetentionPolicy": RetentionPolicy,
    "ReplayJob": ReplayJob,
}


def parse_resource(document: Mapping[str, Any]) -> Resource:
    """Make a resource of a document of one of the kinds, or raise pydantic's ValidationError.

    Unlike ``model_validate`` it accepts no Python names of fields: the API server knows only those of manifests.
    """
    return KINDS[document["kind"]].model_validate(dict(document), by_alias=True, by_name=False)


def parse_stored(document: Mapping[str, Any]) -> Resource:
    """Make a resource of a document as the API server has it, or raise pydantic's ValidationError.

    Unknown values in its status, such as a phase, are ignored: a newer operator may have written them.
    """
    while True:
        try:
            return parse_resource(document)
        except ValidationError as error:
            unknown = next((line["loc"] for line in error.errors() if line["loc"][:1] == ("status",)), None)
            if unknown is None:
                raise
            document = _without(document, unknown)


def _without(value: Any, path: Sequence[int | str]) -> Any:
    """A copy without the value at a path; if there is none, without the nearest value above it."""
    head, rest = path[0], path[1:]
    put = {head: _without(value[head], rest)} if rest and _has(value[head], rest[0]) else {}
    if isinstance(value, Mapping):
        return {key: put.get(key, one) for key, one in value.items() if key != head or put}
    return [put.get(index, one) for index, one in enumerate(value) if index != head or put]


def _has(value: Any, key: int | str) -> bool:
    if isinstance(value, Mapping):
        return key in value
    return isinstance(value, list) and isinstance(key, int) and key < len(value)
