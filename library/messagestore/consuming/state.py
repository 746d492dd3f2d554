"""The state of the consumers of one name, as documents: what they agree on, their slots, and who is there."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from messagestore.consuming.cursors import Change, CursorStore
from messagestore.errors import ConsumerStateError, StorageError
from messagestore_core.store.consumers import Group, Member, Slot
from messagestore_core.store.layout import GROUP, MEMBER, member_name, slot_name

_Document = TypeVar("_Document", bound=BaseModel)


class KeptSlot(NamedTuple):
    """A slot as it is kept; without a document of this generation it is as its group began."""

    slot: Slot
    mark: str | None

    def changed(self, **fields: object) -> "KeptSlot":
        """The same with other fields of the slot, to be written in its place."""
        return KeptSlot(self.slot.model_copy(update=fields), self.mark)


class State:
    """Reads and writes the documents of the consumers of one name, for the store with an id."""

    def __init__(self, cursors: CursorStore, name: str, store: str) -> None:
        self._cursors, self._name, self._store = cursors, name, store

    def group(self) -> Group | None:
        """What the consumers agree on; None if there is nothing for this store."""
        group, _ = self._group()
        return group

    def begin(self, slots: int, start: int) -> Group:
        """Begin a new generation, whose slots all have one cursor; what is agreed on already if others were faster."""
        group = Group(store=self._store, generation=uuid4().hex, slots=slots, start=start)
        content = _written(group)
        _, mark = self._group()
        answer = self._cursors.swap([Change(GROUP, content, mark)]).get(GROUP)
        kept = self.group()
        if kept is None or (isinstance(answer, StorageError) and kept != group):
            if isinstance(answer, StorageError):
                raise answer
            raise ConsumerStateError(f"the state of consumer {self._name} was removed while it was made; begin again")
        return kept

    def slots(self, group: Group, numbers: Iterable[int]) -> dict[int, KeptSlot]:
        """Slots as they are now."""
        by_name = {slot_name(number): number for number in numbers}
        kept = self._cursors.read([*by_name])
        slots = {}
        for name, number in by_name.items():
            slot, mark = None, None
            if name in kept:
                slot, mark = self._parsed(Slot, name, kept[name].content), kept[name].mark
            if slot is None or slot.generation != group.generation:
                slot = Slot(generation=group.generation, global_position=group.start)
            slots[number] = KeptSlot(slot, mark)
        return slots

    def write(self, changes: Mapping[int, KeptSlot]) -> dict[int, KeptSlot | StorageError]:
        """Write slots that have these marks, by one swap each.

        Returns:
            Each slot that was written, with its new mark, or why it could not be; without those that others have
            written meanwhile. Where an answer was lost, what is there decides.
        """
        requested = {number: self.change(number, new) for number, new in sorted(changes.items())}
        answers = self._cursors.swap([*requested.values()])
        unsure = [one.name for one in requested.values() if not isinstance(answers.get(one.name), str)]
        kept = self._cursors.read(unsure) if unsure else {}
        done: dict[int, KeptSlot | StorageError] = {}
        for number, change in requested.items():
            slot, answer, current = changes[number].slot, answers.get(change.name), kept.get(change.name)
            if isinstance(answer, str):
                done[number] = KeptSlot(slot, answer)
            elif current is not None and current.content == change.content:
                done[number] = KeptSlot(slot, current.mark)
            elif answer is not None and (current.mark if current else None) == change.mark:
                done[number] = answer
        return done

    def change(self, number: int, kept: KeptSlot) -> Change:
        """What writes a slot that has this mark."""
        return Change(slot_name(number), _written(kept.slot), kept.mark)

    def members(self) -> dict[str, datetime]:
        """The consumers that have said that they are there, and until when that counts."""
        owners = {name: match[1] for name in self._cursors.names() if (match := MEMBER.fullmatch(name))}
        kept = self._cursors.read([*owners])
        return {owners[name]: self._parsed(Member, name, one.content).until for name, one in kept.items()}

    def join(self, owner: str, until: datetime) -> None:
        """Say that a consumer is there."""
        self._cursors.put(member_name(owner), _written(Member(until=until)))

    def leave(self, owner: str) -> None:
        """Say that it is not there any more."""
        self._cursors.delete(member_name(owner))

    def delete(self) -> None:
        """Delete all documents, the agreement first: what is left of a deletion that broke off counts no more."""
        for name in sorted(self._cursors.names()):
            self._cursors.delete(name)

    def close(self) -> None:
        """Release where they are kept."""
        self._cursors.close()

    def _group(self) -> tuple[Group | None, str | None]:
        kept = self._cursors.read([GROUP]).get(GROUP)
        if kept is None:
            return None, None
        group = self._parsed(Group, GROUP, kept.content)
        # A store that was made again has no cursors.
        return (group if group.store == self._store else None), kept.mark

    def _parsed(self, model: type[_Document], name: str, content: bytes) -> _Document:
        try:
            return model.model_validate_json(content)
        except ValidationError as error:
            raise ConsumerStateError(
                f"{name} of consumer {self._name} is not what a consumer writes there; find out who wrote it, and "
                "restore it, or delete the consumer's state: messagestore consumers delete"
            ) from error


def _written(document: BaseModel) -> bytes:
    return document.model_dump_json(by_alias=True).encode()
