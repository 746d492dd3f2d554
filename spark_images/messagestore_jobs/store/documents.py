"""Documents that lie in a store: read up to a size, and believed only as what they are to be."""

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from messagestore_jobs.store.errors import TableRefusedError
from messagestore_jobs.store.objects import Objects, join

LARGEST = 256 << 20
"""A frozen selection has up to 65,536 keys; the other documents are far smaller."""
_Document = TypeVar("_Document", bound=BaseModel)


def read_document(objects: Objects, name: str, model: type[_Document]) -> _Document | None:
    """The document of a name; None where there is none.

    Raises:
        TableRefusedError: it is something else.
    """
    content = objects.read(name, LARGEST)
    return None if content is None else parsed(model, content, join(objects.uri, name))


def parsed(model: type[_Document], content: bytes, place: str) -> _Document:
    """The document that was read at a place.

    Raises:
        TableRefusedError: it is something else.
    """
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:100]
        problem = f"{where}: {first['msg']}" if where else first["msg"]
        raise TableRefusedError(
            f"{place} is not what a run writes there ({problem[:200]}); find out who wrote it, and remove or restore it"
        ) from None
