"""What a declaration of translators means, and how a store keeps the declaration for its readers.

Needs neither Spark nor Arrow.
"""

import json
from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError

from messagestore_core import envelope
from messagestore_core.contract.records import Translator
from messagestore_core.paths import steps
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.layout import TRANSLATORS
from messagestore_core.store.objects import Objects

COLUMNS = {field.name: field.column for field in envelope.COLUMNS if field.translated}
"""The columns of the fields that a translator may change, by their names in manifests."""
FIRST_VERSION = 0
"""The version of a message that names none."""
_LARGEST = 16 << 20
_TRANSLATORS = TypeAdapter(list[Translator])


def in_order(translators: Sequence[Translator]) -> list[Translator]:
    """The translators in the order in which they are applied: each takes what the one before made."""
    return sorted(translators, key=lambda one: one.from_version)


def parse_path(path: str) -> tuple[str, list[str | int]]:
    """Where a path leads: ``payload`` or ``metadata`` and the steps within, or ``headers`` and one name.

    Raises:
        ValueError: it leads elsewhere.
    """
    match steps(path):
        case ["headers", str() as name]:
            return "headers", [name]
        case ["payload" | "metadata" as document, *within]:
            return str(document), within
    raise ValueError(f"{path} leads to no header, payload or metadata of a message")


def emptied(translator: Translator) -> set[str]:
    """Columns that are empty in the next version, as their fields were renamed."""
    renamed = {COLUMNS[source.rename] for source in translator.fields.values() if source.rename is not None}
    return renamed - {COLUMNS[name] for name in translator.fields}


def taken_out(translator: Translator) -> set[str]:
    """Headers that the next version doesn't take over as they are."""
    renamed = {source.rename for source in translator.headers.values() if source.rename is not None}
    return renamed | set(translator.headers)


def declare(store: HeldStore, translators: Sequence[Translator]) -> None:
    """Write them to the table folder if they differ from what it has."""
    objects = store.objects()
    if is_declared(objects, translators):
        return
    content = [one.model_dump(mode="json", by_alias=True, exclude_defaults=True) for one in translators]
    with store.step("translators"):
        objects.write(TRANSLATORS, json.dumps(content, indent=2).encode() + b"\n")


def is_declared(objects: Objects, translators: Sequence[Translator]) -> bool:
    """Whether the table folder has exactly these."""
    try:
        return list(translators) == declared(objects)
    except ValidationError:
        return False


def declared(objects: Objects) -> list[Translator]:
    """The translators that the table folder has; empty where it has none."""
    content = objects.read(TRANSLATORS, _LARGEST)
    return list(_TRANSLATORS.validate_json(content)) if content else []
