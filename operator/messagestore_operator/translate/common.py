"""Parts of the run document that all kinds of runs share."""

from collections.abc import Iterable
from typing import Any, Literal, TypeVar, cast

from pydantic import BaseModel

from messagestore_core.contract import records as record_contract
from messagestore_core.contract import run_document as contract
from messagestore_core.contract import stores as store_contract
from messagestore_core.contract.purge import Hold
from messagestore_operator.api import MessageStream, Resource
from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import Duration, Quantity, Time
from messagestore_operator.translate.secrets import seal_keys
from messagestore_operator.translate.storage import job_uri

Kind = Literal["MessageStream", "RetentionPolicy", "ReplayJob"]
Part = TypeVar("Part", bound=BaseModel)


def resource_of(resource: Resource) -> contract.Resource:
    """The resource that asks for the run."""
    kind, namespace, name = resource.identity
    generation, requested_by = resource.metadata.generation or 1, written_by(resource, "spec")
    return contract.Resource(
        kind=cast(Kind, kind), namespace=namespace, name=name, generation=generation, requested_by=requested_by
    )


def written_by(resource: Resource, part: str) -> str | None:
    """The last writer of a part of a resource, for the audit."""
    manager = resource.metadata.managers.get(part)
    return f"fieldManager:{manager}" if manager else None


def table_of(stream: MessageStream, adopt_from: tuple[store_contract.FormerOwner, ...]) -> store_contract.Table:
    """The stream's table folder."""
    deduplication = stream.spec.deduplication
    remembered = deduplication.remember_purged if deduplication else None
    lifecycle = stream.spec.lifecycle
    return store_contract.Table(
        uri=job_uri(stream.spec.table.uri.rstrip("/")),
        owner=store_contract.Owner(namespace=stream.metadata.namespace, name=stream.metadata.name),
        adopt_from=adopt_from,
        remember_purged=remembered.timedelta if remembered else None,
        keeps_history=lifecycle is not None and lifecycle.history == "All",
    )


def integrity_of(stream: MessageStream) -> record_contract.Integrity | None:
    """How the stream's messages are sealed."""
    if stream.spec.integrity is None:
        return None
    current, *previous = (key.variable for key in seal_keys(stream))
    keys: dict[str, Any] = {"key_environment": current, "previous_environments": tuple(previous)}
    return as_document(record_contract.Integrity, stream.spec.integrity, **keys)


def translators_of(stream: MessageStream) -> tuple[record_contract.Translator, ...]:
    """The translators of the stream's older messages to its current envelope version."""
    return tuple(
        record_contract.Translator(
            from_version=translator.from_version,
            fields={
                name: as_document(record_contract.FieldSource, source)
                for name, source in translator.fields.given().items()
            },
            headers={source.name: as_document(record_contract.FieldSource, source) for source in translator.headers},
        )
        for translator in stream.spec.envelope.translators
    )


def holds_of(stream: MessageStream) -> tuple[Hold, ...]:
    """The holds, which protect messages of the stream's store from removal."""
    return tuple(as_document(Hold, hold) for hold in stream.spec.holds)


def as_document(kind: type[Part], part: Model, /, **differing: Any) -> Part:
    """A part of the run document: the fields that a part of a resource has by the same names, and those that differ.

    Durations, sizes and times become the document's, whole models too; an absent field has the document's default.
    """
    same = kind.model_fields.keys() & type(part).model_fields.keys() - differing.keys()
    return kind.model_validate({**_plain(part, same), **differing})


def _plain(part: Model, names: Iterable[str]) -> dict[str, Any]:
    values = {name: getattr(part, name) for name in names}
    return {name: _value(value) for name, value in values.items() if value is not None}


def _value(value: Any) -> Any:
    match value:
        case Duration():
            return value.timedelta
        case Quantity():
            return value.bytes
        case Time():
            return value.datetime
        case Model():
            return _plain(value, type(value).model_fields)
        case tuple():
            return tuple(map(_value, value))
        case _:
            return value
