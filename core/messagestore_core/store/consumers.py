"""The state of consumers: how far applications have handled a store's messages, as objects in its folder.

Applications write it, not runs: a run reads it as a stranger's, bounded, and what it can't read says nothing.
"""

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, ValidationError

from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.folder import store_id
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import CONSUMERS, GROUP, SLOTS_AT_MOST, slot_name
from messagestore_core.store.objects import Objects

STATE_BYTES = 1 << 16
"""No consumer writes a larger object."""

_Short = Annotated[str, Field(strict=True, max_length=64)]


class Group(ContractModel):
    """What all consumers of one name agree on. A new generation begins anew: no slot of an earlier one counts."""

    format_version: Literal[1] = 1
    store: _Short
    """The store's id: in a store that was made again, nothing has been handled."""
    generation: _Short
    slots: Annotated[int, Field(strict=True, ge=1, le=SLOTS_AT_MOST)]
    start: Count
    """The cursor of a slot that has no object yet."""


class Slot(ContractModel):
    """How far the messages of one slot have been handled, and which consumer may go on."""

    format_version: Literal[1] = 1
    generation: _Short
    owner: _Short | None = None
    until: AwareDatetime | None = None
    """The end of the owner's lease."""
    epoch: Count = 0
    """How often the slot has been taken."""
    global_position: Count
    """The cursor: all messages of the slot up to it have been handled."""


class Member(ContractModel):
    """A consumer that is there, whether it has slots or not."""

    format_version: Literal[1] = 1
    until: AwareDatetime


def read_consumers(store: Store) -> dict[str, int | None]:
    """The smallest cursor of the slots of all consumers that keep their state in the store, by their names.

    None where there is none of this store, or it can't be read: then it is unknown what they have handled.
    """
    objects, own = store.objects(CONSUMERS), store_id(store)
    folders = [name for name in objects.names() if name.endswith("/")]
    return {folder.rstrip("/"): _cursor(objects.below(folder.rstrip("/")), own) for folder in folders}


def _cursor(objects: Objects, store: str) -> int | None:
    """The smallest cursor of one name's slots; None if there is none of this store, or it can't be read."""
    try:
        content = objects.read(GROUP, STATE_BYTES)
        group = None if content is None else Group.model_validate_json(content)
        if group is None or group.store != store:
            return None
        return min(_cursor_of(objects.read(slot_name(number), STATE_BYTES), group) for number in range(group.slots))
    except (ValidationError, TableRefusedError):
        return None


def _cursor_of(content: bytes | None, group: Group) -> int:
    slot = None if content is None else Slot.model_validate_json(content)
    return group.start if slot is None or slot.generation != group.generation else slot.global_position
