"""Which version of a store a call reads: the newest, or a chosen one."""

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from messagestore import sql
from messagestore.arguments import time_in_utc
from messagestore.errors import StoreUnreadableError, VersionNotFoundError
from messagestore.id_index import looked_up
from messagestore.location import Location, refusals
from messagestore.reads import FIRST_GLOBAL_POSITION, Read, of_stream
from messagestore.snapshot import Snapshot
from messagestore_core.clock import rfc3339
from messagestore_core.contract.ingest import IngestCounts
from messagestore_core.contract.records import Translator
from messagestore_core.store.delta_log import files_of, note_before, note_of
from messagestore_core.store.folder import FORMAT_VERSION
from messagestore_core.store.keyed import stream_key
from messagestore_core.store.layout import INDEX, LOG, MARKER, TRANSLATORS, entry_name
from messagestore_core.store.notes import commit_time
from messagestore_core.store.objects import LARGEST_DOCUMENT, first_link
from messagestore_core.store.schemas import HEADS, MESSAGES
from messagestore_core.versions import declared

_ENTRY = re.compile(r"(\d{20})\.json")


class Marked(NamedTuple):
    """What the marker in a store's folder says: its format, and namespace and name of its MessageStream."""

    format_version: int
    owner: tuple[str, str] | None


class Versions:
    """The messages of one store, at a chosen version or at the newest when a call begins.

    Raises:
        StoreNotFoundError: there is no store.
        StoreUnreadableError: it has a newer format.
        StorageError: storage refuses.
        VersionNotFoundError: the store has no such version.
        ArgumentError: ``at`` has no time zone.
    """

    def __init__(self, location: Location, version: int | None = None, at: datetime | None = None) -> None:
        self._location = location
        self._fixed = version is not None or at is not None
        self._messages = location.open_table("messages")
        self._declared: tuple[int, list[Translator]] | None = None
        self._snapshot: Snapshot | None = None
        self.marker = _checked_marker(location)
        if version is not None:
            self._load(version)
        if at is not None:
            self._load(time_in_utc("at", at))

    def table(self) -> DeltaTable:
        """Table ``messages`` at the version that a call reads."""
        if not self._fixed:
            before = self._messages.version()
            with refusals(self._location.uri):
                self._messages.update_incremental()
                if self._messages.version() != before:
                    self._location.check(self._messages)
        return self._messages

    @property
    def table_id(self) -> str:
        """The id of ``messages`` in its log."""
        return str(self._messages.metadata().id)

    def transaction(self, app_id: str) -> int:
        """The version of a transaction in ``messages`` as a call has opened it; 0 without one."""
        with refusals(self._location.uri):
            return self._messages.transaction_version(app_id) or 0

    def totals(self) -> tuple[int, IngestCounts]:
        """The bytes of the version's files as a call has opened it, and what happened to all records up to it."""
        with refusals(self._location.uri):
            files = files_of(self._messages)
            # delta-rs has the newest commits in the history of any version.
            note = note_before(self._location.store, self._messages.version()) or note_of(self._messages)
            return sum(files["size_bytes"].to_pylist()) if files.num_rows else 0, note.totals

    def snapshot(self) -> Snapshot:
        """The snapshot that one call reads; calls at one version share it, as it keeps what it read of files' ends."""
        table = self.table()
        if self._snapshot is None or self._snapshot.version != table.version():
            with refusals(self._location.uri):
                self._snapshot = Snapshot(self._location.uri, table, files=files_of(table))
        return self._snapshot

    def with_id(
        self,
        message_id: str,
        columns: Sequence[str] | None = None,
        position: int = FIRST_GLOBAL_POSITION,
        *,
        first: bool = False,
    ) -> pa.Table:
        """The rows of messages with an id, from a global position on: of the days that the index knows, or else of all.

        Args:
            columns: absent: all.
            first: whether the one that came first is enough, so that what is newer than the index is not read.
        """
        snapshot, read = self.snapshot(), Read({"message_id": message_id}, start=position)
        hint = looked_up(self._location.objects(INDEX), self.table_id, message_id)
        if hint is not None:
            inserted = sql.inserted(hint.inserted_at, None if first else hint.newest)
            rows = snapshot.rows((*read.conditions, inserted), columns=columns)
            if rows.num_rows:
                return rows
        pages = snapshot.pages(replace(read, payloads=columns is None))
        rows = pa.concat_tables([MESSAGES.empty_table(), *pages])
        return rows if columns is None else rows.select(columns)

    def stream_version(self, stream_name: str | None) -> int | None:
        """The highest position ever given in a stream; None without one."""
        if stream_name is None:
            return None
        last = self.snapshot().highest("position", of_stream(stream_name).conditions)
        head = self._head(stream_name)
        return max((position for position in (last, head) if position is not None), default=None)

    def committed_at(self) -> datetime | None:
        """When the version that a call reads was committed; None where the log does not say it, or no longer."""
        with refusals(self._location.uri):
            log = self._location.objects("messages", LOG)
            return commit_time(log.read(entry_name(self._messages.version())) or b"")

    def translators(self) -> list[Translator]:
        """The translators to the current envelope version, as the store declares them now.

        Raises:
            StoreUnreadableError: the declaration is invalid.
        """
        version = self._messages.version()
        if self._declared is None or self._declared[0] != version:
            try:
                with refusals(self._location.uri):
                    self._declared = version, declared(self._location.objects())
            except ValueError as error:
                raise StoreUnreadableError(f"{self._location.uri}/{TRANSLATORS} declares no translators") from error
        return self._declared[1]

    def other(self, name: str, schema: pa.Schema) -> Snapshot:
        """Another table of the store, as of the time when the version that a call reads was committed."""
        table = self._location.open_table(name)
        moment = self.committed_at() if self._fixed else None
        if moment is not None:
            with refusals(self._location.uri):
                table.load_as_version(self._version_at(table, name, moment))
                self._location.check(table)
        return Snapshot(self._location.uri, table, schema)

    def _head(self, stream_name: str) -> int | None:
        """The highest position of a stream that a purge noted before it removed messages; None without one."""
        heads = self.other("heads", HEADS)
        head = heads.highest("next_position", (sql.equals("stream_name", stream_name),))
        if head is None and (key := self._location.tombstone_key()):
            head = heads.highest("next_position", (sql.equals("stream_key", stream_key(key, stream_name)),))
        return None if head is None else head - 1

    def _version_at(self, table: DeltaTable, name: str, moment: datetime) -> int:
        """The last version at a moment, or the first, by what the log says: a copy has other times of its objects."""
        log, newest = self._location.objects(name, LOG), table.version()
        entries = [match[1] for match in map(_ENTRY.fullmatch, log.names()) if match]
        versions = [version for version in sorted(map(int, entries)) if version <= newest] or [newest]

        def committed(version: int) -> datetime:
            return commit_time(log.read(entry_name(version)) or b"") or moment

        return versions[max(bisect_right(versions, moment, key=committed) - 1, 0)]

    def _load(self, wanted: int | datetime) -> None:
        shown = wanted if isinstance(wanted, int) else rfc3339(wanted)
        newest = self._messages.version()
        with refusals(self._location.uri):
            version = wanted if isinstance(wanted, int) else self._version_at(self._messages, "messages", wanted)
        try:
            self._messages.load_as_version(version)
        except (DeltaError, OverflowError) as error:
            raise VersionNotFoundError(
                f"{self._location.uri} has no version {shown}: its newest is {newest}, and its log may no longer "
                "have the oldest"
            ) from error
        with refusals(self._location.uri):
            self._location.check(self._messages)
        moment = self.committed_at()
        if isinstance(wanted, datetime) and moment is not None and moment > wanted:
            raise VersionNotFoundError(
                f"{self._location.uri} has no version of {shown}: its first is of {rfc3339(moment)}"
            )


def _checked_marker(location: Location) -> Marked:
    """What a store's marker says. Without one its tables show what it is.

    Raises:
        StoreUnreadableError: this release may not read it correctly.
    """
    link = first_link(location.uri)
    if link is not None:
        raise StoreUnreadableError(f"{link} is a link or a device, and may lead out of the store")
    with refusals(location.uri):
        marker = location.objects().read(MARKER, LARGEST_DOCUMENT)
    try:
        said = json.loads(marker) if marker else {"formatVersion": 0}
        version, owner = int(said["formatVersion"]), said.get("owner")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreUnreadableError(f"{location.uri}/{MARKER} is not the marker of a message store") from error
    if version > FORMAT_VERSION:
        raise StoreUnreadableError(
            f"{location.uri} has format version {version}, this release knows up to {FORMAT_VERSION}; use a newer one"
        )
    return Marked(version, (owner["namespace"], owner["name"]) if isinstance(owner, dict) else None)
