"""Read a message store: message-db's functions and the Message Store pattern's, under their own names.

>>> from messagestore.reader import Reader
>>> with Reader("s3a://lake/orders") as store:
...     for message in store.get_category_messages("order", position=1):
...         handle(message)
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from os import PathLike
from typing import Self

import pyarrow as pa
from typing_extensions import override

from messagestore import reads
from messagestore.arguments import BATCH_SIZE, time_in_utc
from messagestore.audit import AuditRow, audit_of
from messagestore.dead_letters import DeadLetter, dead_letters_of
from messagestore.functions import Functions
from messagestore.history import HistoryRow, history_of
from messagestore.integrity import OnBroken
from messagestore.leaving import Leaving, leaving
from messagestore.location import Location
from messagestore.message import Message, messages_of
from messagestore.names import cardinal_id, category, hash_64, id, is_category
from messagestore.outcomes import Erased, NotSeen, Outcome, Purged, SetAside, Stored, outcomes, waited
from messagestore.overview import Overview, overview, updates_source
from messagestore.previews import Taken, taken
from messagestore.reads import FIRST_GLOBAL_POSITION, Read
from messagestore.rows import Rows
from messagestore.statistics import Elapsed, Share, Statistics, elapsed, statistics, summary
from messagestore.versions import Versions
from messagestore_core.contract.purge import Hold, Rule
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.schemas import MESSAGES

__all__ = [
    "ArrowReader",
    "AuditRow",
    "DeadLetter",
    "Erased",
    "HistoryRow",
    "Leaving",
    "Message",
    "NotSeen",
    "Outcome",
    "Overview",
    "Purged",
    "Reader",
    "SetAside",
    "Share",
    "Statistics",
    "Stored",
    "Taken",
    "cardinal_id",
    "category",
    "hash_64",
    "id",
    "is_category",
]


class ArrowReader(Functions[pa.Table, pa.Table, pa.Table, pa.Table, pa.Table]):
    """The functions of ``Reader``, as Arrow tables with the columns of ``messages`` or ``dead_letters``."""

    def parts(self, read: Read) -> Iterator[pa.Table]:
        """The rows of a read in its order, a bounded part at a time."""
        return self._rows.parts(read)

    @override
    def _messages(self, parts: Iterator[pa.Table]) -> pa.Table:
        return pa.concat_tables([MESSAGES.empty_table(), *parts])

    _newest = _message = _messages

    @override
    def _dead_letters(self, rows: pa.Table) -> pa.Table:
        return rows

    _audit = _dead_letters


class Reader(Functions[Iterator[Message], list[Message], Message | None, Iterator[DeadLetter], Iterator[AuditRow]]):
    """Reads the messages of a store; ``arrow`` has the same functions, which return Arrow tables.

    Each call reads one version of the store: the newest at that moment, or the one of ``version`` or ``at``.
    Messages are returned only with the payload that was stored, see ``on_broken``, and translated to the current
    envelope version. Threads don't share a reader.

    Args:
        uri: the store's folder: ``file:///…``, a path, or ``s3a://…``.
        version: the version of table ``messages`` to read.
        at: the time whose version to read, with a time zone.
        storage: how buckets are reached; absent: by AWS' environment variables. Credentials always come from the
            environment.
        on_broken: called with each broken message, which is then left out; absent: BrokenMessageError is raised.
        seal_keys: the keys of the stream's seals; with them, a message whose seal is missing or matches none is broken.

    Raises:
        StoreNotFoundError: there is no store.
        StoreUnreadableError: it has a newer format.
        StorageError: storage refuses.
        VersionNotFoundError: it has no such version.
        ArgumentError: ``at`` has no time zone.
    """

    def __init__(
        self,
        uri: str | PathLike[str],
        *,
        version: int | None = None,
        at: datetime | None = None,
        storage: Sequence[StorageEntry] | None = None,
        on_broken: OnBroken | None = None,
        seal_keys: Sequence[str] = (),
    ) -> None:
        with ExitStack() as held:
            location = held.enter_context(closing(Location(uri, storage)))
            super().__init__(Rows(location, Versions(location, version, at), on_broken, seal_keys))
            held.pop_all()
        self.arrow = ArrowReader(self._rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the reader's resources."""
        self._rows.location.close()

    @property
    def owner(self) -> tuple[str, str] | None:
        """Namespace and name of the MessageStream that the store belongs to; None without a marker."""
        return self._rows.versions.marker.owner

    @property
    def version(self) -> int:
        """The version of table ``messages`` that a call would read now."""
        return self._rows.versions.snapshot().version

    def stream_version(self, stream_name: str) -> int | None:
        """The highest position ever given in a stream, which a purge does not lower; None where there is none."""
        return self._rows.versions.stream_version(stream_name)

    def since(
        self, name: str | None, last: int, batch_size: int | None = BATCH_SIZE, where: str | None = None
    ) -> Iterator[Message]:
        """The messages after a global position of a stream, a category or, with None, all; in order of arrival.

        With ``where`` only those that meet it.
        """
        return self._messages(self._rows.parts(reads.arrived_since(name, last, batch_size, where)))

    def outcome(self, message_id: str) -> list[Outcome]:
        """What became of a message: Stored, SetAside, Erased or Purged, each that did; NotSeen if nothing did.

        Raises:
            ArgumentError: the id is too long for a message; the dead letter of such a record doesn't have it.
        """
        return outcomes(self._rows.location, self._rows.versions, message_id)

    def history(self, message_id: str) -> list[HistoryRow]:
        """What has changed in the lifecycle of a message, in order; empty if nothing has, or no history is kept."""
        return history_of(self._rows.versions, message_id)

    def wait(self, message_id: str, timeout: timedelta) -> list[Outcome]:
        """Wait until something has become of a message, and return it; NotSeen if nothing did in time."""
        return waited(self._rows.location, self._rows.versions, message_id, timeout)

    def summary(self, by: Sequence[str] = ("stream", "type")) -> list[Share]:
        """How many messages there are, by ``stream``, ``category``, ``type`` and ``status``, in order of these.

        Raises:
            ArgumentError: there is no such part.
        """
        return summary(self._rows.versions, by)

    def elapsed(self, first: str, then: str, since: datetime | None = None) -> Elapsed:
        """The time from the earliest message of one type to the earliest of another in its correlation, over all.

        Args:
            since: only correlations whose first message has at least this time.
        """
        return elapsed(self._rows.versions, first, then, since)

    def message_store_version(self) -> str:
        """The version of the store's format, which its marker has."""
        return str(self._rows.versions.marker.format_version)

    def statistics(self) -> Statistics:
        """Statistics of the store; reads a few columns of all messages."""
        return statistics(self._rows.versions)

    def overview(self, batches: int = 100) -> Overview:
        """Messages by day, category, type and status, dead letters by reason, and the batches of the last commits.

        Reads a few narrow columns of all messages.

        Args:
            batches: of how many of the newest commits.
        """
        return overview(self._rows.location, self._rows.versions, batches)

    def updates_source(self) -> str | None:
        """Where a run read status updates last: the URI of a file, or ``topic NAME``; None if none did."""
        return updates_source(self._rows.versions)

    def leaving(
        self, rules: Sequence[Rule], holds: Sequence[Hold] = (), as_of: datetime | None = None, days: int = 30
    ) -> Leaving:
        """How many messages rules of retention would remove in the next days, as messages are now.

        Args:
            rules: of one policy, as a run document has them.
            holds: of the stream.
            as_of: when the days begin, with a time zone; absent: now.
            days: how many, of 24 hours.
        """
        moment = datetime.now(UTC) if as_of is None else time_in_utc("as_of", as_of)
        return leaving(self._rows.versions, rules, holds, moment, days)

    def taken(
        self, policy: str, rule: str | None = None, position: int = FIRST_GLOBAL_POSITION, limit: int = 100
    ) -> Iterator[Taken]:
        """The messages that a purge would take whose preview waits for approval, in order of arrival.

        Args:
            policy: its name.
            rule: only those that this rule selects.
            position: the first global position.
            limit: how many at most; so many are held in memory.

        Raises:
            ArgumentError: no preview of the policy waits in this store, or it has no such rule.
        """
        return taken(self._rows.location, self._rows.versions, policy, rule, position, limit)

    @override
    def _messages(self, parts: Iterator[pa.Table]) -> Iterator[Message]:
        return (message for part in parts for message in messages_of(part))

    @override
    def _newest(self, parts: Iterator[pa.Table]) -> list[Message]:
        return list(self._messages(parts))

    @override
    def _message(self, parts: Iterator[pa.Table]) -> Message | None:
        return next(self._messages(parts), None)

    @override
    def _dead_letters(self, rows: pa.Table) -> Iterator[DeadLetter]:
        return dead_letters_of(rows)

    @override
    def _audit(self, rows: pa.Table) -> Iterator[AuditRow]:
        return audit_of(rows)
