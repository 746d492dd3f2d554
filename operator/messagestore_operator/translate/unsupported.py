"""Valid fields that this release doesn't support: they are refused, never ignored."""

from collections.abc import Iterable, Iterator, Sequence

from messagestore_core.json_values import steps
from messagestore_operator.api import MessageStream, ReplayJob, Resource
from messagestore_operator.api.envelope import FieldMapping
from messagestore_operator.api.sources import FilesSource
from messagestore_operator.names import RESET_TO
from messagestore_operator.translate.annotations import UnknownDestinationError, reset_to, resets_by_name
from messagestore_operator.translate.folders import folders, own_overlaps
from messagestore_operator.translate.refusal import NotSupportedError, RefusedField
from messagestore_operator.translate.storage import locations, out_of_reach, refused_locations

_DOCUMENTS = ("headers", "metadata", "result")


def refusals(resource: Resource) -> tuple[RefusedField, ...]:
    """All fields of the resource that this release doesn't support."""
    if isinstance(resource, MessageStream):
        return (*_of_envelope(resource), *refused_locations(locations(resource, resource)), *own_overlaps(resource))
    return (
        *(RefusedField(one.path, words) for one in folders(resource) if (words := out_of_reach(one.uri)) is not None),
        *_of_reset(resource),
    )


def ensure_supported(resource: Resource) -> None:
    """Raise NotSupportedError if the resource asks for something that this release doesn't support."""
    if refused := refusals(resource):
        raise NotSupportedError(refused)


_RESETS = (
    "must be Beginning, Now, a global position, or a time in UTC such as 2026-01-05T08:00:00Z; or a JSON object of "
    'these by names of spec.destinations, such as {"eu": "Beginning"}'
)


def _of_reset(resource: Resource) -> Iterator[RefusedField]:
    """An annotation that moves a cursor to nowhere."""
    if isinstance(resource, ReplayJob):
        try:
            reset_to(resource)
            resets_by_name(resource)
        except ValueError as error:
            words = str(error) if isinstance(error, UnknownDestinationError) else _RESETS
            yield RefusedField(("metadata", "annotations", RESET_TO), words)


def _of_envelope(stream: MessageStream) -> Iterator[RefusedField]:
    """Mappings that can find nothing, or only values that the field can't have."""
    envelope, files = stream.spec.envelope, stream.spec.source.files
    of_kafka = files is None
    fields = envelope.fields.given() if envelope.fields else {}
    mapped = {("fields", name): mapping for name, mapping in fields.items()}
    mapped |= {("addHeaders", name): mapping for name, mapping in envelope.add_headers.items()}
    for (part, name), mapping in mapped.items():
        path = ("spec", "envelope", part, name)
        if mapping.outer > len(envelope.unwrap):
            yield RefusedField(path, f"there is no record around it: add steps to unwrap, {mapping.outer} in all")
        if words := _of_document(mapping, name if part == "fields" else "", mapped.values(), files):
            yield RefusedField(path, words)
        if mapping.path is not None or mapping.value is not None:
            continue
        if mapping.of_file and of_kafka:
            yield RefusedField(path, "records of Kafka have no file or partition: give a path, a header or a record")
        elif not (mapping.of_file or of_kafka):
            yield RefusedField(path, "only records of Kafka have a header or record: give a path, a file or a value")
        elif part == "fields" and name in _DOCUMENTS:
            yield RefusedField(path, f"{name} is a JSON document: give a path to it in the record's value")


def _of_document(
    mapping: FieldMapping, name: str, others: Iterable[FieldMapping], files: FilesSource | None
) -> str | None:
    """Why a value of the document around a record can't be found, or not be that of the field; None: it can."""
    if mapping.path is None or not mapping.of_document:
        return None
    if files is None or not any(map(steps, files.records_paths)):
        return "there is no document around a record: set source.files.recordsPaths to an array in one"
    own = steps(mapping.path)
    if not own or not all(isinstance(step, str) for step in own):
        return "a path in a document has names alone, at least one, such as $.region"
    if name in (*_DOCUMENTS, "payload"):
        return f"{name} is no text: give a path to it in the record"
    arrays = [path for one in files.records_paths if (path := steps(one))]
    beside = [steps(other.path) for other in others if other.path is not None and other.of_document]
    if own in arrays or any(_leads(own, other) for other in (*arrays, *beside)):
        return "the path leads to a path of recordsPaths or of another field, or from there: give one beside them"
    return None


def _leads(one: Sequence[str | int], other: Sequence[str | int]) -> bool:
    """Whether one of two paths is a part of the other."""
    shorter, longer = sorted((one, other), key=len)
    return len(shorter) < len(longer) and list(longer[: len(shorter)]) == list(shorter)
