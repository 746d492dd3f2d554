"""Tables that change their owner: within a namespace it decides alone, two namespaces must agree."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

from pydantic import Field

from messagestore_core.contract.stores import FormerOwner
from messagestore_operator.api import MessageStream
from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import StoreUri
from messagestore_operator.names import RELEASE_TABLE_TO
from messagestore_operator.translate.annotations import adopts, adopts_from
from messagestore_operator.translate.storage import job_uri

Party = Annotated[str, Field(strict=True, max_length=320, pattern=r"^[a-z0-9-]{1,63}(/[a-z0-9.-]{1,253})?$")]
"""A namespace, or one MessageStream: namespace/name."""


class Adoption(Model):
    """A table that may be taken over because its former owner can no longer release it."""

    uri: StoreUri = Field(description="The table's folder.")
    from_: Party = Field(alias="from", description="Former owner: a namespace, or namespace/name.")
    to: Party = Field(description="New owner: a namespace, or namespace/name.")


def is_released(stream: MessageStream, adoptions: Iterable[Adoption] = ()) -> bool:
    """Whether the stream has released its table, so that none of its runs may write it any more."""
    to = stream.metadata.annotations.get(RELEASE_TABLE_TO)
    if to is not None and not _is(to, stream):
        return True
    return any(_is(one.from_, stream) and not _is(one.to, stream) for one in _about(stream, adoptions))


def givers(
    stream: MessageStream, sharing: Iterable[MessageStream], adoptions: Sequence[Adoption]
) -> Iterator[MessageStream]:
    """Streams of other namespaces that have released their table to this stream, which adopts it.

    Args:
        stream: the new owner.
        sharing: streams that name the same folder.
        adoptions: from the operator's settings.
    """
    if not adopts(stream):
        return
    for other in sharing:
        if other.metadata.namespace == stream.metadata.namespace:
            continue
        by_admin = any(_is(one.from_, other) and _is(one.to, stream) for one in _about(stream, adoptions))
        if by_admin or _is(other.metadata.annotations.get(RELEASE_TABLE_TO, ""), stream):
            yield other


def former_owners(
    stream: MessageStream, sharing: Iterable[MessageStream], adoptions: Sequence[Adoption] = ()
) -> tuple[FormerOwner, ...]:
    """The former owners whose folder a stream's runs may take over."""
    if not adopts(stream):
        return ()
    given = [_party(f"{other.metadata.namespace}/{other.metadata.name}") for other in givers(stream, sharing, ())]
    admins = [_party(one.from_) for one in _about(stream, adoptions) if _is(one.to, stream)]
    return (*adopts_from(stream), *given, *admins)


def _about(stream: MessageStream, adoptions: Iterable[Adoption]) -> Iterator[Adoption]:
    return (one for one in adoptions if _folder(one.uri) == _folder(stream.spec.table.uri))


def _folder(uri: str) -> str:
    return job_uri(uri).rstrip("/")


def _is(party: str, stream: MessageStream) -> bool:
    namespace, name = stream.metadata.namespace, stream.metadata.name
    return party in (namespace, f"{namespace}/{name}")


def _party(text: str) -> FormerOwner:
    namespace, _, name = text.partition("/")
    return FormerOwner(namespace=namespace, name=name or None)
