"""Reads resources from the API server, even those that it accepts and the models refuse.

A CRD can't express that a cron expression never fires, or which time zones exist. The status of such a resource must
report it, its runs must be followed to their end, and its newest version must be in the cache.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

from pydantic import ValidationError

from messagestore_core.text import clipped
from messagestore_operator.api.kinds import parse_stored
from messagestore_operator.api.resource import Resource
from messagestore_operator.kube.objects import ApiObject, Kind, metadata
from messagestore_operator.manifests.problem import message_of, path_text
from messagestore_operator.names import GROUP, NAMES, VERSION

RESOURCES = {kind: Kind(GROUP, VERSION, kind, names.plural) for kind, names in NAMES.items()}
"""The project's three kinds, by name."""
LARGEST = 256 << 10
"""Characters of a spec, and of labels and annotations, that are kept. Anybody may make resources of 1.5 MB."""
_LONGEST = 1000
_TRIGGER = ("spec", "trigger")
_NO_TRIGGER: Mapping[str, Any] = {"manual": {}}
"""Replaces a refused trigger; such a resource gets no runs."""


def managers(managed_fields: Any) -> dict[str, str]:
    """The last writer of ``spec`` and of each of this project's annotations, by name.

    Args:
        managed_fields: metadata.managedFields, unchecked.
    """
    writers: dict[str, str] = {}
    for entry in sorted(_entries(managed_fields), key=lambda entry: str(entry.get("time"))):
        fields, manager = entry.get("fieldsV1"), entry.get("manager")
        if entry.get("subresource") or not isinstance(fields, dict) or not isinstance(manager, str):
            continue
        if "f:spec" in fields:
            writers["spec"] = manager
        writers |= dict.fromkeys(_annotations(fields), manager)
    return writers


def _entries(managed_fields: Any) -> Sequence[dict[str, Any]]:
    entries = managed_fields if isinstance(managed_fields, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _annotations(fields: dict[str, Any]) -> list[str]:
    own = fields.get("f:metadata")
    annotations = own.get("f:annotations") if isinstance(own, dict) else None
    names = annotations if isinstance(annotations, dict) else {}
    return [name.removeprefix("f:") for name in names if name.startswith(f"f:{GROUP}/")]


def read(document: ApiObject, known: Resource | None, problem: str | None) -> tuple[Resource, str | None]:
    """A resource, and the refused part of its spec, with the field's path.

    The valid part of a refused spec is kept; if that is too little, the previous spec.

    Args:
        document: as the API server sent it.
        known: the resource as read before; a spec of the same generation is not read again.
        problem: the refused part of that spec.

    Raises:
        ValidationError: too little of it is valid.
    """
    about, words = _about(metadata(document))
    before = known if known is not None and known.metadata.uid == about.get("uid") else None
    same = before is not None and before.metadata.generation == about.get("generation") is not None
    if same and problem is None and not words:
        # A status changes far more often than a spec does.
        return _with_spec({**document, "metadata": about}, cast(Resource, before)), None
    spec, left_out = _bounded(document.get("spec") or {})
    document, words = {**document, "metadata": about, "spec": spec}, words + left_out
    try:
        resource = parse_stored(document)
    except ValidationError as error:
        refused = [line for line in error.errors(include_url=False) if line["loc"][:1] == ("spec",)]
        if not refused:
            raise
        words += [f"{path_text(line['loc'])}: {message_of(line)}" for line in refused]
        resource = _rest(document, [line["loc"] for line in refused], before)
    return resource, clipped("; ".join(words), _LONGEST) if words else None


def _about(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The metadata that is read, without labels and annotations that are too large, and words about these."""
    about = {key: value for key, value in given.items() if key != "managedFields"}
    own = {key: value for key, value in (given.get("annotations") or {}).items() if key.startswith(f"{GROUP}/")}
    notes = {"labels": given.get("labels") or {}, "annotations": own, "managers": managers(given.get("managedFields"))}
    if (size := _size(notes)) <= LARGEST:
        return {**about, **notes}, []
    return {**about, **{field: {} for field in notes}}, [f"metadata: labels and annotations have {_more(size)}"]


def _bounded(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[str]]:
    """A spec without its largest fields, if it is too large, and words about them."""
    words = list[str]()
    sizes = {field: _size(value) for field, value in spec.items()}
    while (size := sum(sizes.values())) > LARGEST:
        largest = max(sizes, key=lambda field: sizes[field])
        words.append(f"spec.{largest}: the spec has {_more(size)}, {sizes.pop(largest)} of them here")
    return {field: spec[field] for field in sizes}, words


def _more(size: int) -> str:
    return f"{size} characters, and the operator reads {LARGEST}"


def _size(value: Any) -> int:
    """About the number of characters that a value has as JSON."""
    if isinstance(value, Mapping):
        return sum(len(key) + 4 + _size(one) for key, one in value.items())
    if isinstance(value, list):
        return sum(1 + _size(one) for one in value)
    return len(value) + 2 if isinstance(value, str) else 8


def _with_spec(document: ApiObject, known: Resource) -> Resource:
    return parse_stored({**document, "spec": known.spec})


def _rest(document: ApiObject, refused: Iterable[tuple[int | str, ...]], before: Resource | None) -> Resource:
    """The resource without refused fields; of a trigger or a list's item, all is removed if a part is refused."""
    legible = {**document, "spec": deepcopy(document["spec"])}
    # From a list's end, so that the other items keep their indexes.
    for path in sorted({_whole(path) for path in refused if len(path) > 1}, key=_index_in_list, reverse=True):
        if path == _TRIGGER:
            legible["spec"]["trigger"] = _NO_TRIGGER
        else:
            _remove(legible, path)
    try:
        return parse_stored(legible)
    except ValidationError:
        if before is None:
            raise
        return _with_spec(document, before)


def _whole(path: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """The path that is removed because of a refused field."""
    if path[:2] == _TRIGGER:
        return _TRIGGER
    item = next((index for index, step in enumerate(path) if isinstance(step, int)), len(path))
    return path[: item + 1]


def _index_in_list(path: tuple[int | str, ...]) -> int:
    last = path[-1]
    return last if isinstance(last, int) else -1


def _remove(holder: Any, path: tuple[int | str, ...]) -> None:
    for step in path[:-1]:
        holder = holder.get(step) if isinstance(holder, Mapping) else None
    if isinstance(holder, list):
        del holder[_index_in_list(path)]
    elif isinstance(holder, dict):
        holder.pop(path[-1], None)
