"""The translators of a stream as its store keeps them, for those who read the store alone."""

import json
from collections.abc import Sequence
from contextlib import suppress

from pydantic import TypeAdapter, ValidationError

from messagestore_jobs.contract.run_document import Translator
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.objects import Objects

NAME = "_translators.json"
_LARGEST = 16 << 20
_TRANSLATORS = TypeAdapter(list[Translator])


def declare(objects: Objects, translators: Sequence[Translator]) -> None:
    """Keep them in the table folder, where that says something new."""
    with suppress(ValidationError):
        if list(translators) == declared(objects):
            return
    content = [one.model_dump(mode="json", by_alias=True, exclude_defaults=True) for one in translators]
    with external_write("translators"):
        objects.write(NAME, json.dumps(content, indent=2).encode() + b"\n")


def declared(objects: Objects) -> list[Translator]:
    """Those that the table folder keeps; none where it keeps none."""
    content = objects.read(NAME, _LARGEST)
    return list(_TRANSLATORS.validate_json(content)) if content else []
