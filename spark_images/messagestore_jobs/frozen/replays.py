"""The state of a replay, by which a later run continues it."""

import hashlib
import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
from pydantic import Field

from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.contract.destinations import (
    FilesDestination,
    HttpDestination,
    KafkaDestination,
    StreamDestination,
)
from messagestore_core.contract.replay import FailedPositions, FrozenSelection, ReplayOutcome, ReplayTask
from messagestore_core.contract.stores import TableState
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import (
    CHUNKS,
    ENDED,
    ENDING,
    FROZEN,
    ORDER,
    REPLAYS,
    SELECTED,
    STAGING,
    STATE,
    chunk_name,
)
from messagestore_core.store.objects import Objects, documents_in, join, read_document, write_document

Key = tuple[bool | int | str, ...]
"""A place in an order; state files have it as JSON."""
Format = Literal["JSONLines", "JSON", "Parquet"]
"""Of the objects that a replay stages."""
_NO_POSITIONS = pa.table({"global_position": pa.array([], pa.int64())})


class Split(NamedTuple):
    """The smallest range of the selection; chunks begin and end between splits."""

    start: Key
    messages: int
    bytes: int
    claim_checks: int
    first_global_position: int | None
    last_global_position: int | None

    @property
    def dense(self) -> bool:
        """Whether all positions from the first to the last are selected, so that these two define them."""
        first, last = self.first_global_position, self.last_global_position
        return first is not None and last is not None and self.messages == last - first + 1


class Frozen(ContractModel):
    """The selection of a replay, frozen when the replay begins."""

    table: str | None = None
    """The URI of the store that it selects from; None: an earlier release froze it."""
    task: str
    """A digest of the task; a replay continues only with the same."""
    request_digest: str | None = Field(default=None, validation_alias="asked", serialization_alias="asked")
    """What was asked of which store, see ``request_digest_of``; an earlier release didn't note it."""
    destination_id: str | None = None
    """The id of a destination that may be made again under its name; an earlier release didn't note it."""
    run: str
    at: datetime
    selection: FrozenSelection
    listed: bool
    """Whether the selected positions were written, as the selectors may match others later."""
    ordered: bool = Field(default=False, validation_alias="placed", serialization_alias="placed")
    """Whether the positions were written in order, as the splits alone don't show them."""
    end: Key | None
    """The key where the limit ends the selection; None: no limit applies."""
    splits: tuple[Split, ...] = Field(validation_alias="grains", serialization_alias="grains")
    withheld: int = 0
    """Messages that match and are not selected, as they have no record as it came, or were scrubbed since."""
    missed: int = 0
    """Of a round of a subscription: messages of its range that a purge had removed."""
    erased: int = 0
    """Messages that had been erased: of a round of a subscription those of its range, of a topic that is put back with
    no selection all."""
    restores: bool = False
    """Whether it puts a topic back: records as they came, in a topic that never had any."""


class Part(ContractModel):
    """One object of a chunk, with its staged and its final name."""

    staged: str
    name: str
    messages: int
    bytes: int


class Chunk(ContractModel):
    """A sealed part of the selection; the next chunk begins at ``next_split``.

    It is sealed again only if messages of it that have not been sent, or can be taken back, are erased.
    """

    number: int
    next_split: int = Field(validation_alias="nextGrain", serialization_alias="nextGrain")
    sent: int
    failed: int
    first_failed: FailedPositions = ()
    erased: int = 0
    expired: int = 0
    lost: int = 0
    first_lost: tuple[int, ...] = ()
    bytes: int
    last_global_position: int | None
    parts: tuple[Part, ...]
    tombstones: str = ""
    """By which tombstones it has no erased message, see ``erased.Tombstones``; empty: it may have some."""


class Ended(ReplayOutcome):
    """The outcome of an ended replay, and what was asked of which store, see ``request_digest_of``.

    The stores' contents are not in it, as they change.
    """

    table: TableState | None = Field(default=None, exclude=True)
    target_table: TableState | None = Field(default=None, exclude=True)
    request_digest: str | None = Field(default=None, validation_alias="asked", serialization_alias="asked")

    def outcome(self) -> ReplayOutcome:
        """The outcome alone."""
        return ReplayOutcome(**{name: getattr(self, name) for name in ReplayOutcome.model_fields})


class EndedFiles(Ended):
    """The outcome of a replay to files, and how many objects it has."""

    objects: Count = 0


class ReplayState:
    """The folder with a replay's state, removed when the replay ends; the run may write to store ``held`` meanwhile."""

    def __init__(self, held: HeldStore, objects: Objects) -> None:
        self.held, self.uri, self._objects = held, objects.uri, objects
        self.selected_uri, self.order_uri = join(self.uri, SELECTED), join(self.uri, ORDER)
        """The folders of the selected positions, if they are listed, and of those in order, if they were written."""
        self.staging_uri = join(self.uri, STAGING)
        """The folder of the chunk under way."""

    def ordered_positions(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """``count`` positions from the ``first`` on, in the order of the replay."""
        filesystem, folder = self._objects.locate(ORDER)
        parts = ds.dataset(folder, format="parquet", filesystem=filesystem).get_fragments()
        tables = [_NO_POSITIONS]
        for part in sorted(parts, key=lambda part: part.path):
            held = part.count_rows()
            if count and first < held:
                tables.append(part.to_table(columns=["global_position"]).slice(first, count).cast(_NO_POSITIONS.schema))
                count -= tables[-1].num_rows
            first = max(0, first - held)
        positions: npt.NDArray[np.int64] = pa.concat_tables(tables)["global_position"].to_numpy()
        return positions

    def begun(self) -> Frozen | None:
        """The frozen selection, of whichever task; None before there is one."""
        return read_document(self._objects, FROZEN, Frozen)

    def frozen(self, task: ReplayTask, table: str) -> Frozen | None:
        """The frozen selection; None before there is one.

        Raises:
            RunFailedError: it is of another task.
        """
        frozen = self.begun()
        if frozen is None:
            return None
        of_other_store = (
            None not in (frozen.request_digest, task.request_digest) and frozen.request_digest != task.request_digest
        )
        if frozen.task != digest(task, table) or of_other_store:
            raise RunFailedError(
                "ReplayChanged",
                f"replay {task.job_id} began with another selection, order, mark, table or store; what it sends can't "
                "change, make a new replay",
            )
        return frozen

    def is_half_removed(self, frozen: Frozen) -> bool:
        """Whether a run was cut off in :meth:`remove`, before anything of the selection was sent."""
        needed = [name for name, written in ((SELECTED, frozen.listed), (ORDER, frozen.ordered)) if written]
        return not all(map(self._objects.names, needed)) and not self.chunks()

    def positions(self, frozen: Frozen, first: int, following: int) -> npt.NDArray[np.int64] | None:
        """The selected positions from one split to before another, split by split.

        None if an earlier release froze the replay and they are unknown.
        """
        splits = frozen.splits[first:following]
        if all(split.dense for split in splits):
            firsts = [cast("int", split.first_global_position) for split in splits]
            ranges = [np.arange(at, at + g.messages) for at, g in zip(firsts, splits, strict=True)]
            return np.concatenate([np.array([], np.int64), *ranges])
        if not frozen.ordered:
            return None
        before = sum(split.messages for split in frozen.splits[:first])
        return self.ordered_positions(before, sum(split.messages for split in splits))

    def is_of_another(self, task: ReplayTask, table: str) -> bool:
        """Whether the frozen selection is of a resource that asked for something else."""
        frozen = self.begun()
        if frozen is None:
            return False
        # An earlier release noted only the task.
        return (
            frozen.task != digest(task, table)
            if frozen.request_digest is None
            else frozen.request_digest != task.request_digest
        )

    def freeze(self, frozen: Frozen) -> None:
        """Write the frozen selection."""
        with self.held.step("replay-frozen"):
            write_document(self._objects, FROZEN, frozen)

    def chunks(self) -> list[Chunk]:
        """All sealed chunks, in order."""
        names = [name for name in self._objects.names(CHUNKS) if name.endswith(".json")]
        chunks = (read_document(self._objects, name, Chunk) for name in names)
        return [chunk for chunk in chunks if chunk is not None]

    def seal(self, chunk: Chunk) -> None:
        """Seal a staged chunk: from now on it is delivered, and never staged again."""
        with self.held.step("replay-seal"):
            write_document(self._objects, chunk_name(chunk.number), chunk)

    def note_ending(self, ended: EndedFiles) -> None:
        """Note the outcome before readers see that the replay has ended."""
        with self.held.step("replay-ending"):
            write_document(self._objects, ENDING, ended)

    def ending(self) -> EndedFiles | None:
        """What was noted last before readers were to see that the replay has ended; None before."""
        return read_document(self._objects, ENDING, EndedFiles)

    def remove(self) -> None:
        """Remove everything; the frozen selection goes last, so that a later run knows what to remove."""
        if not self._objects.names():
            return
        for name in (SELECTED, ORDER, STAGING, CHUNKS, ""):
            with self.held.step(f"replay-remove-{name or 'state'}"):
                self._objects.delete_folder(name)


def frozen_in(store: Store) -> Iterator[tuple[str, Frozen]]:
    """The frozen selections that a store's folder has, of any store: the folder of each replay, ending with a slash."""
    return documents_in(store.objects(), REPLAYS, f"{STATE}/{FROZEN}", Frozen)


def unfinished(store: Store) -> list[Frozen]:
    """The replays with state in a store that have frozen a selection, of any store, and have not ended."""
    objects = store.objects()
    return [frozen for name, frozen in frozen_in(store) if not objects.exists(f"{name}{ENDED}")]


def origin_of(objects: Objects, job: str) -> str | None:
    """The URI of the store that a replay with state in a folder selects from; None if it is unknown."""
    frozen = read_document(objects, f"{job}{STATE}/{FROZEN}", Frozen)
    return frozen.table if frozen else None


def request_digest_of(task: ReplayTask, store: str | None) -> str | None:
    """A digest of what a resource asks for, and of the store's id, if there is one."""
    if store is None:
        return task.request_digest
    return hashlib.sha256(json.dumps([task.request_digest, store]).encode()).hexdigest()


def digest(task: ReplayTask, table: str) -> str:
    """A digest of what is sent where, without rate limit, mode and all else that may change."""
    changing = ("messages_per_second", "mode", "on_failed", "destination", "rounds", "subscription", "skip_expired")
    # The stream's spec says how groups are held back, and when a sequence is overdue, and may change. What waits is in
    # the cursor.
    of_others: dict[str, Any] = dict.fromkeys(("held_back", "grouped_by", "sequence_timeout", "waiting"), True)
    if task.select.sequences is not None and not task.select.sequences.or_overdue:
        # An earlier release didn't have it.
        of_others["sequences"] = {"or_overdue"}
    changes: dict[str, Any] = dict.fromkeys((*changing, "request_digest"), True)
    request = task.model_dump(mode="json", exclude={**changes, "select": of_others})
    text = json.dumps([request, _shape(task), table], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _shape(task: ReplayTask) -> str:
    match task.to:
        case FilesDestination():
            return task.to.format + _as(task.to)
        case KafkaDestination():
            named = task.to.topic_from
            topic = task.to.topic if named is None else f"from {named.header or ''}"
            return f"kafka:{topic}:{task.to.key}{_as(task.to)}"
        case HttpDestination():
            return f"http:{task.to.url}:{task.to.envelope}"
        case StreamDestination():
            return "stream"


def _as(destination: FilesDestination | KafkaDestination) -> str:
    """The envelope, where it is another one than that of earlier releases."""
    return "" if destination.envelope == "Native" else f":{destination.envelope}"
