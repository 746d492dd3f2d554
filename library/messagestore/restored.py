"""Where consumer groups go on in topics that were put back from a store."""

import os
import re
from contextlib import closing
from typing import NamedTuple

from messagestore.errors import ArgumentError
from messagestore.location import Location, entries_of, refusals
from messagestore_core.store.handle import Store
from messagestore_core.store.storage import reaching
from messagestore_core.store.topics import restored_topics


class Moved(NamedTuple):
    """Where a group was in a partition that was lost, and where it goes on in the one that was put back."""

    topic: str
    topic_id: str
    partition: int
    before: int
    offset: int


def moved_offsets(uri: str, group: str, job: str | None = None) -> list[Moved]:
    """The offsets of a consumer group in topics that were put back, each for the last time.

    Args:
        job: the ReplayJob that put them back, as ``namespace/name``; None: any.

    Raises:
        ArgumentError: the job's name is no such name.
        MessageStoreError: the store can't be read.
    """
    with (
        closing(Location(uri)) as location,
        refusals(uri),
        reaching(entries_of(location.uri, os.environ)) as storage,
    ):
        notes = restored_topics(Store(location.uri, storage), _ids_of(job))
    return [
        Moved(note.topic, note.topic_id, partition, note.groups[group][partition].offset, offset)
        for note in sorted(notes, key=lambda note: note.topic)
        for partition, offset in sorted(note.moved.get(group, {}).items())
    ]


def _ids_of(job: str | None) -> re.Pattern[str]:
    """The ids of a job: in a cluster it has another one each time that it is created."""
    if job is None:
        return re.compile(".*")
    namespace, separator, name = job.partition("/")
    if not (namespace and separator and name):
        raise ArgumentError(f"job {job} is no namespace/name")
    return re.compile(rf"{re.escape(namespace)}\.{re.escape(name)}(\.[0-9a-f]{{8}})?")
