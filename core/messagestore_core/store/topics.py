"""What is noted of the topics whose records a store keeps, and of those that are put back: objects by a topic's id.

A topic that was deleted has no partitions and no configuration to ask for any more. A replay that puts a topic back
holds no right to write the store, so it writes only the object of its new topic, which it is the first to fill.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import GROUPS, RESTORED, TOPIC, TOPICS
from messagestore_core.store.objects import documents_in, read_document, write_document

_FORMAT_VERSION: Literal[1] = 1
_Partitions = Annotated[int, Field(strict=True, ge=1, le=1_000_000)]


class TopicNote(ContractModel):
    """A topic as it was when a run looked last."""

    format_version: Literal[1] = _FORMAT_VERSION
    topic: str
    topic_id: str
    partitions: _Partitions
    replicas: Annotated[int, Field(strict=True, ge=1, le=32767)]
    configuration: dict[str, str] | None
    """What differs from the brokers' defaults; None: the user may not ask for it."""
    noted_at: datetime


class Place(NamedTuple):
    """A place in a partition of the topics of one name, which are numbered: see ``offsets``."""

    generation: Count
    offset: Count


class GroupsNote(ContractModel):
    """The offsets that consumer groups had committed when a run looked last, by partition."""

    format_version: Literal[1] = _FORMAT_VERSION
    topic: str
    topic_id: str
    offsets: dict[str, dict[int, Count]]
    noted_at: datetime


class RestoredNote(ContractModel):
    """A topic that a replay out of this store puts back: the store has its records, up to some offsets."""

    format_version: Literal[1] = _FORMAT_VERSION
    topic: str
    topic_id: str
    job: str
    """The id of the replay."""
    noted_at: datetime
    ends: dict[int, Count] | None = None
    """By partition, the offset behind the records that came from this store; None: the replay is under way."""
    groups: dict[str, dict[int, Place]] = {}
    """Where consumer groups were when the replay began, by partition."""
    moved: dict[str, dict[int, Count]] = {}
    """The offsets where they go on."""


def note_topic(held: HeldStore, note: TopicNote) -> None:
    """Write a note, if it says anything new; an empty configuration never replaces another one.

    Raises:
        TableRefusedError: the object there is no such note.
    """
    objects = held.objects(TOPICS, note.topic_id)
    before = read_document(objects, TOPIC, TopicNote)
    if before is not None and not note.configuration:
        note = note.model_copy(update={"configuration": before.configuration or note.configuration})
    if before is None or note != before.model_copy(update={"noted_at": note.noted_at}):
        with held.step("topic-noted"):
            write_document(objects, TOPIC, note)


def noted_topic(store: Store, topic: str) -> TopicNote | None:
    """What is noted of the topics of a name, of which earlier ones were deleted; None: nothing.

    It has all partitions that any of them had, and the newest configuration that isn't empty, as brokers may have made
    the last one by themselves.

    Raises:
        TableRefusedError: an object is no such note.
    """
    every = [note for _, note in documents_in(store.objects(), TOPICS, TOPIC, TopicNote) if note.topic == topic]
    if not every:
        return None
    every.sort(key=lambda note: note.noted_at)
    configurations = [note.configuration for note in every if note.configuration is not None]
    configuration = next(filter(None, reversed(configurations)), {} if configurations else None)
    partitions = max(note.partitions for note in every)
    return every[-1].model_copy(update={"partitions": partitions, "configuration": configuration})


def note_groups(held: HeldStore, note: GroupsNote) -> None:
    """Write what groups have committed, if it is anything new; what is missing of a group replaces nothing.

    Raises:
        TableRefusedError: the object there is no such note.
    """
    objects = held.objects(TOPICS, note.topic_id)
    before = read_document(objects, GROUPS, GroupsNote)
    known = before.offsets if before is not None else {}
    offsets = {group: {**known.get(group, {}), **note.offsets.get(group, {})} for group in {**known, **note.offsets}}
    if offsets != known:
        with held.step("groups-noted"):
            write_document(objects, GROUPS, note.model_copy(update={"offsets": offsets}))


def noted_groups(
    store: Store, topic: str, generations: Mapping[str, int], empty: str | None = None
) -> dict[str, dict[int, Place]]:
    """Where consumer groups were in the topics of a name, each partition in the last of them that it read.

    Consumers commit 0 in a topic that was made again, before they have read anything of it.

    Args:
        generations: of the topics that the store has read, by topic id. Groups of another one have read all of those.
        empty: the id of a topic that never had a record, which no group has read.

    Raises:
        TableRefusedError: an object is no note.
    """
    notes = (note for _, note in documents_in(store.objects(), TOPICS, GROUPS, GroupsNote))
    every = [note for note in notes if note.topic == topic and note.topic_id != empty]
    places: dict[str, dict[int, Place]] = {}
    last = 0
    for note in sorted(every, key=lambda note: note.noted_at):
        restored, generation = read_restored(store, note.topic_id), generations.get(note.topic_id)
        last = generation or last
        for group, offsets in note.offsets.items():
            at = places.setdefault(group, {})
            for partition, offset in offsets.items():
                if offset == 0 and partition in at and restored is None:
                    continue
                own = Place(generation, offset) if generation is not None else Place(last + 1, 0)
                at[partition] = _before_restored(offset, partition, restored) or own
    return places


def _before_restored(offset: int, partition: int, restored: RestoredNote | None) -> Place | None:
    """An offset among records that had been put back, as a place of where these came from: never a later one."""
    if restored is None or offset >= (restored.ends or {}).get(partition, 0):
        return None
    known = [
        (moved[partition], restored.groups[group][partition])
        for group, moved in restored.moved.items()
        if partition in moved and partition in restored.groups.get(group, {})
    ]
    return max((origin for now, origin in known if now <= offset), default=Place(0, 0))


def restored_topics(store: Store, jobs: re.Pattern[str]) -> list[RestoredNote]:
    """Of each name the topic that one of these replays put back last; one under way doesn't count.

    Raises:
        TableRefusedError: an object is no note.
    """
    every = [note for _, note in documents_in(store.objects(), TOPICS, RESTORED, RestoredNote)]
    ended = [note for note in every if note.ends is not None and jobs.fullmatch(note.job)]
    return list({note.topic: note for note in sorted(ended, key=lambda note: note.noted_at)}.values())


def note_restored(held: HeldStore, note: RestoredNote) -> None:
    """Note that a replay puts a topic back, before it sends the first record, or what of it is back, at the end."""
    with held.step("topic-restored"):
        write_document(held.objects(TOPICS, note.topic_id), RESTORED, note)


def read_restored(store: Store, topic_id: str) -> RestoredNote | None:
    """What is noted of a topic that a replay puts back; None: none does.

    Raises:
        TableRefusedError: the object there is no such note.
    """
    return read_document(store.objects(TOPICS, topic_id), RESTORED, RestoredNote)
