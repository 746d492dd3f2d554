"""Read a message store: message-db's functions and the Message Store pattern's, under their own names.

>>> from messagestore.reader import Reader
>>> with Reader("s3a://lake/orders") as store:
...     for message in store.get_category_messages("order", position=1):
...         handle(message)
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Generic, Self, TypeVar

import pyarrow as pa
from typing_extensions import override

from messagestore import reads
from messagestore.arguments import BATCH_SIZE, batch_limit, time_in_utc
from messagestore.audit import AuditRow, audit_of, audit_rows
from messagestore.dead_letters import DeadLetter, dead_letter_rows, dead_letters_of
from messagestore.history import HistoryRow, history_of
from messagestore.integrity import OnBroken
from messagestore.leaving import Leaving, leaving
from messagestore.location import Location
from messagestore.message import Message, messages_of
from messagestore.names import cardinal_id, category, hash_64, id, is_category
from messagestore.outcomes import Erased, NotSeen, Outcome, Purged, SetAside, Stored, outcomes, waited
from messagestore.overview import Overview, overview, updates_source
from messagestore.previews import Taken, taken
from messagestore.reads import FIRST_GLOBAL_POSITION, FIRST_POSITION, Read
from messagestore.rows import Rows
from messagestore.statistics import Elapsed, Share, Statistics, elapsed, statistics, summary
from messagestore.versions import Versions
from messagestore_core.contract.run_document import Hold, Rule
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

RESUME_BATCH = 100
"""How many messages the pattern's functions load at once."""
OVERVIEW_BATCHES = 100
"""Of how many commits an overview tells the batches."""
_RECEIVED = ("RECEIVED",)
_Messages = TypeVar("_Messages")
_Newest = TypeVar("_Newest")
_Message = TypeVar("_Message")
_DeadLetters = TypeVar("_DeadLetters")
_Audit = TypeVar("_Audit")


class _Functions(ABC, Generic[_Messages, _Newest, _Message, _DeadLetters, _Audit]):
    """The functions of a reader, for results of one form."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def get_stream_messages(
        self,
        stream_name: str,
        position: int | None = FIRST_POSITION,
        batch_size: int | None = BATCH_SIZE,
        condition: str | None = None,
    ) -> _Messages:
        """The messages of a stream, by position.

        Args:
            stream_name: a stream, not a category.
            position: the first position.
            batch_size: how many at most; -1: no limit.
            condition: only messages that meet it, in the language of docs/filters.md; they are counted.

        Raises:
            ArgumentError: with message-db's message, or the condition is refused.
        """
        read = reads.stream_messages(stream_name, position, batch_size, condition)
        return self._messages(self._rows.parts(read))

    def get_category_messages(
        self,
        category: str,
        position: int | None = FIRST_GLOBAL_POSITION,
        batch_size: int | None = BATCH_SIZE,
        correlation: str | None = None,
        consumer_group_member: int | None = None,
        consumer_group_size: int | None = None,
        condition: str | None = None,
    ) -> _Messages:
        """The messages of all streams of a category, by global position.

        Args:
            category: a category, not a stream.
            position: the first global position.
            batch_size: how many at most; -1: no limit.
            correlation: only messages whose metadata names a stream of this category as ``correlationStreamName``.
            consumer_group_member: only streams of this member, from 0; needs the size.
            consumer_group_size: how many members share the category's streams.
            condition: only messages that meet it, in the language of docs/filters.md; they are counted.

        Raises:
            ArgumentError: with message-db's message, or the condition is refused.
        """
        group = (consumer_group_member, consumer_group_size)
        read = reads.category_messages(category, position, batch_size, correlation, *group, condition)
        return self._messages(self._rows.parts(read))

    def get_last_stream_message(self, stream_name: str, type: str | None = None) -> _Message:
        """The message with a stream's highest position, or the highest of one type; None, or no row, without one."""
        return self._message(self._rows.newest(reads.of_stream(stream_name, type), 1))

    def get_message(self, message_id: str) -> _Message:
        """The message with an id; None, or no row, without one. If several have it, the first."""
        return self._message(self._rows.with_id(message_id))

    def load_for_correlation(
        self,
        correlation_id: str,
        statuses: Sequence[str] = _RECEIVED,
        position: int = FIRST_GLOBAL_POSITION,
        batch_size: int | None = RESUME_BATCH,
    ) -> _Messages:
        """The messages with a correlation identifier and one of ``statuses``, in order of arrival."""
        return self._messages(self._rows.parts(reads.correlated(correlation_id, statuses, position, batch_size)))

    def load_for_resequencer(
        self,
        sequence_id: str,
        number: int = 1,
        statuses: Sequence[str] = _RECEIVED,
        batch_size: int | None = RESUME_BATCH,
    ) -> _Messages:
        """The members of a message sequence from ``number`` on with one of ``statuses``, by number."""
        where = reads.sequence_conditions(sequence_id, number, statuses)
        return self._messages(self._rows.by_number(where, batch_limit(batch_size)))

    def unfinished(
        self,
        position: int = FIRST_GLOBAL_POSITION,
        batch_size: int | None = RESUME_BATCH,
        as_of: datetime | None = None,
    ) -> _Messages:
        """The messages to resume after a crash: received, being processed, or failed with retries left.

        Args:
            position: the first global position.
            batch_size: how many at most; -1: no limit.
            as_of: messages that have expired by then are left out, with a time zone; absent: now.
        """
        moment = datetime.now(UTC) if as_of is None else time_in_utc("as_of", as_of)
        return self._messages(self._rows.parts(reads.unfinished(moment, position, batch_size)))

    def get_messages(
        self, position: int = FIRST_GLOBAL_POSITION, batch_size: int | None = BATCH_SIZE, where: str | None = None
    ) -> _Messages:
        """All messages from a global position on, in order of arrival; with ``where`` only those that meet it."""
        return self._messages(self._rows.parts(reads.all_messages(position, batch_size, where)))

    def find(
        self,
        statuses: Sequence[str] = (),
        types: Sequence[str] = (),
        correlation_id: str | None = None,
        causation_id: str | None = None,
        since: datetime | None = None,
        where: str | None = None,
        position: int | None = None,
        batch_size: int | None = BATCH_SIZE,
        *,
        newest_first: bool = True,
        payloads: bool = False,
    ) -> _Messages:
        """The messages that have all that is given, by default the newest first and without their payloads.

        Args:
            statuses: with one of these.
            types: of one of these.
            correlation_id: with this correlation identifier.
            causation_id: caused by this message.
            since: whose ``time`` is not before this one, with a time zone.
            where: that meet this condition, in the language of docs/filters.md.
            position: the global position to begin with; absent: the newest or the oldest.
            batch_size: how many at most; -1: no limit.
            newest_first: False: in order of arrival.
            payloads: whether payloads are read, too.

        Raises:
            ArgumentError: there is no such status, or the condition is refused.
        """
        causes = () if causation_id is None else (causation_id,)
        wanted = reads.Wanted(statuses, types, correlation_id, causes, since, where)
        read = reads.matching(wanted, position, batch_size, newest_first=newest_first, payloads=payloads)
        return self._messages(self._rows.parts(read))

    def caused_by(self, message_id: str, *, payloads: bool = False) -> _Messages:
        """The messages that a message has caused, then those that they have caused, and so on; each once."""
        return self._messages(self._rows.caused_by(message_id, payloads=payloads))

    def latest(self, name: str | None = None, count: int = 10) -> _Newest:
        """The newest ``count`` messages of a stream, of a category or, without a name, of all; the newest last."""
        return self._newest(self._rows.newest(reads.of_name(name), batch_limit(count)))

    def dead_letters(
        self,
        reasons: Sequence[str] = (),
        redriven: bool | None = None,
        batch_size: int | None = BATCH_SIZE,
        *,
        raw: bool = True,
    ) -> _DeadLetters:
        """The dead letters, newest first.

        Args:
            reasons: only dead letters with one of these; empty: all.
            redriven: True: only those that were redriven; False: only those that were not.
            batch_size: how many at most; -1: no limit.
            raw: whether their bytes are read, too.

        Raises:
            ArgumentError: no dead letter has one of the reasons.
        """
        return self._dead_letters(dead_letter_rows(self._rows.versions, reasons, redriven, batch_size, raw=raw))

    def audit(
        self, actions: Sequence[str] = (), since: datetime | None = None, batch_size: int | None = BATCH_SIZE
    ) -> _Audit:
        """What was done to the store, the newest first: purges, erasures, holds, replays and more.

        Args:
            actions: only these; empty: all.
            since: only what was done then or later, with a time zone.
            batch_size: how many rows at most; -1: no limit.

        Raises:
            ArgumentError: there is no such action.
        """
        return self._audit(audit_rows(self._rows.versions, actions, since, batch_size))

    @abstractmethod
    def _messages(self, parts: Iterator[pa.Table]) -> _Messages: ...

    @abstractmethod
    def _newest(self, parts: Iterator[pa.Table]) -> _Newest: ...

    @abstractmethod
    def _message(self, parts: Iterator[pa.Table]) -> _Message: ...

    @abstractmethod
    def _dead_letters(self, rows: pa.Table) -> _DeadLetters: ...

    @abstractmethod
    def _audit(self, rows: pa.Table) -> _Audit: ...


class ArrowReader(_Functions[pa.Table, pa.Table, pa.Table, pa.Table, pa.Table]):
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


class Reader(_Functions[Iterator[Message], list[Message], Message | None, Iterator[DeadLetter], Iterator[AuditRow]]):
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
        uri: str,
        *,
        version: int | None = None,
        at: datetime | None = None,
        storage: Sequence[StorageEntry] | None = None,
        on_broken: OnBroken | None = None,
        seal_keys: Sequence[str] = (),
    ) -> None:
        location = Location(uri, storage)
        super().__init__(Rows(location, Versions(location, version, at), on_broken, seal_keys))
        self.arrow = ArrowReader(self._rows)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        return statistics(self._rows.location.uri, self._rows.versions)

    def overview(self, batches: int = OVERVIEW_BATCHES) -> Overview:
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
