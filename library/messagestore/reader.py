"""Read a message store: message-db's functions and the Message Store pattern's, under their own names.

>>> from messagestore.reader import Reader
>>> with Reader("s3a://lake/orders") as store:
...     for message in store.get_category_messages("order", position=1):
...         handle(message)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

import pyarrow as pa

from messagestore import reads
from messagestore.arguments import BATCH_SIZE, batch_limit, time_in_utc
from messagestore.dead_letters import DeadLetter, dead_letter_rows, dead_letters_of
from messagestore.integrity import OnBroken, sound_rows
from messagestore.location import Location
from messagestore.message import Message, messages_of
from messagestore.names import cardinal_id, category, hash_64, id, is_category
from messagestore.reads import FIRST_GLOBAL_POSITION, FIRST_POSITION, Read
from messagestore.statistics import Statistics, statistics
from messagestore.versions import Versions
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.schemas import MESSAGES
from messagestore_core.versions.rows import translate_table

__all__ = [
    "ArrowReader",
    "DeadLetter",
    "Message",
    "Reader",
    "Statistics",
    "cardinal_id",
    "category",
    "hash_64",
    "id",
    "is_category",
]

RESUME_BATCH = 100
"""How many messages the pattern's functions load at once."""
_RECEIVED = ("RECEIVED",)


class Reader:
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
    ) -> None:
        self._location = Location(uri, storage)
        self._versions = Versions(self._location, version, at)
        self.arrow = ArrowReader(self._location, self._versions, on_broken)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the reader's resources."""
        self._location.close()

    @property
    def version(self) -> int:
        """The version of table ``messages`` that a call would read now."""
        return self._versions.snapshot().version

    def get_stream_messages(
        self,
        stream_name: str,
        position: int | None = FIRST_POSITION,
        batch_size: int | None = BATCH_SIZE,
        condition: str | None = None,
    ) -> Iterator[Message]:
        """The messages of a stream, by position.

        Args:
            stream_name: a stream, not a category.
            position: the first position.
            batch_size: how many at most; -1: no limit.
            condition: refused, as message-db does by default.

        Raises:
            ArgumentError: with message-db's message.
        """
        read = reads.stream_messages(stream_name, position, batch_size, condition)
        return self._messages(self.arrow.parts(read))

    def get_category_messages(
        self,
        category: str,
        position: int | None = FIRST_GLOBAL_POSITION,
        batch_size: int | None = BATCH_SIZE,
        correlation: str | None = None,
        consumer_group_member: int | None = None,
        consumer_group_size: int | None = None,
        condition: str | None = None,
    ) -> Iterator[Message]:
        """The messages of all streams of a category, by global position.

        Args:
            category: a category, not a stream.
            position: the first global position.
            batch_size: how many at most; -1: no limit.
            correlation: only messages whose metadata names a stream of this category as ``correlationStreamName``.
            consumer_group_member: only streams of this member, from 0; needs the size.
            consumer_group_size: how many members share the category's streams.
            condition: refused, as message-db does by default.

        Raises:
            ArgumentError: with message-db's message.
        """
        group = (consumer_group_member, consumer_group_size)
        read = reads.category_messages(category, position, batch_size, correlation, *group, condition)
        return self._messages(self.arrow.parts(read))

    def get_last_stream_message(self, stream_name: str, type: str | None = None) -> Message | None:
        """The message with a stream's highest position, or the highest of one type; None without one."""
        return next(messages_of(self.arrow.get_last_stream_message(stream_name, type)), None)

    def stream_version(self, stream_name: str) -> int | None:
        """The highest position ever given in a stream, which a purge does not lower; None where there is none."""
        return self._versions.stream_version(stream_name)

    def get_message(self, message_id: str) -> Message | None:
        """The message with an id; None without one."""
        return next(messages_of(self.arrow.get_message(message_id)), None)

    def load_for_correlation(
        self,
        correlation_id: str,
        statuses: Sequence[str] = _RECEIVED,
        position: int = FIRST_GLOBAL_POSITION,
        batch_size: int | None = RESUME_BATCH,
    ) -> Iterator[Message]:
        """The messages with a correlation identifier and one of ``statuses``, in order of arrival."""
        return self._messages(self.arrow.parts(reads.correlated(correlation_id, statuses, position, batch_size)))

    def load_for_resequencer(
        self,
        sequence_id: str,
        number: int = 1,
        statuses: Sequence[str] = _RECEIVED,
        batch_size: int | None = RESUME_BATCH,
    ) -> Iterator[Message]:
        """The members of a message sequence from ``number`` on with one of ``statuses``, by number."""
        return self._messages(iter([self.arrow.load_for_resequencer(sequence_id, number, statuses, batch_size)]))

    def unfinished(
        self,
        position: int = FIRST_GLOBAL_POSITION,
        batch_size: int | None = RESUME_BATCH,
        as_of: datetime | None = None,
    ) -> Iterator[Message]:
        """The messages to resume after a crash: received, being processed, or failed with retries left.

        Args:
            position: the first global position.
            batch_size: how many at most; -1: no limit.
            as_of: messages that have expired by then are left out, with a time zone; absent: now.
        """
        return self._messages(self.arrow.parts(reads.unfinished(_moment(as_of), position, batch_size)))

    def get_messages(
        self, position: int = FIRST_GLOBAL_POSITION, batch_size: int | None = BATCH_SIZE
    ) -> Iterator[Message]:
        """All messages from a global position on, in order of arrival."""
        return self._messages(self.arrow.parts(reads.all_messages(position, batch_size)))

    def since(self, name: str | None, last: int, batch_size: int | None = BATCH_SIZE) -> Iterator[Message]:
        """The messages after a global position of a stream, a category or, with None, all; in order of arrival."""
        return self._messages(self.arrow.parts(reads.arrived_since(name, last, batch_size)))

    def latest(self, name: str | None = None, count: int = 10) -> list[Message]:
        """The newest ``count`` messages of a stream, of a category or, without a name, of all; the newest last."""
        return list(messages_of(self.arrow.latest(name, count)))

    def dead_letters(
        self, reasons: Sequence[str] = (), redriven: bool | None = None, batch_size: int | None = BATCH_SIZE
    ) -> Iterator[DeadLetter]:
        """The dead letters, newest first.

        Args:
            reasons: only dead letters with one of these; empty: all.
            redriven: True: only those that were redriven; False: only those that were not.
            batch_size: how many at most; -1: no limit.

        Raises:
            ArgumentError: no dead letter has one of the reasons.
        """
        return dead_letters_of(self.arrow.dead_letters(reasons, redriven, batch_size))

    def statistics(self) -> Statistics:
        """Statistics of the store; reads a few columns of all messages."""
        return statistics(self._location.uri, self._versions)

    @staticmethod
    def _messages(parts: Iterator[pa.Table]) -> Iterator[Message]:
        return (message for part in parts for message in messages_of(part))


class ArrowReader:
    """The functions of ``Reader``, as Arrow tables with the columns of ``messages``."""

    def __init__(self, location: Location, versions: Versions, on_broken: OnBroken | None) -> None:
        self._location, self._versions, self._on_broken = location, versions, on_broken

    def get_stream_messages(
        self,
        stream_name: str,
        position: int | None = FIRST_POSITION,
        batch_size: int | None = BATCH_SIZE,
        condition: str | None = None,
    ) -> pa.Table:
        """As ``Reader.get_stream_messages``."""
        return self._table(self.parts(reads.stream_messages(stream_name, position, batch_size, condition)))

    def get_category_messages(
        self,
        category: str,
        position: int | None = FIRST_GLOBAL_POSITION,
        batch_size: int | None = BATCH_SIZE,
        correlation: str | None = None,
        consumer_group_member: int | None = None,
        consumer_group_size: int | None = None,
        condition: str | None = None,
    ) -> pa.Table:
        """As ``Reader.get_category_messages``."""
        group = (consumer_group_member, consumer_group_size)
        read = reads.category_messages(category, position, batch_size, correlation, *group, condition)
        return self._table(self.parts(read))

    def get_last_stream_message(self, stream_name: str, type: str | None = None) -> pa.Table:
        """As ``Reader.get_last_stream_message``; one row or none."""
        return self._newest(reads.of_stream(stream_name, type), 1)

    def get_message(self, message_id: str) -> pa.Table:
        """As ``Reader.get_message``; one row or none."""
        return self._table(self.parts(reads.message_with_id(message_id)))

    def load_for_correlation(
        self,
        correlation_id: str,
        statuses: Sequence[str] = _RECEIVED,
        position: int = FIRST_GLOBAL_POSITION,
        batch_size: int | None = RESUME_BATCH,
    ) -> pa.Table:
        """As ``Reader.load_for_correlation``."""
        return self._table(self.parts(reads.correlated(correlation_id, statuses, position, batch_size)))

    def load_for_resequencer(
        self,
        sequence_id: str,
        number: int = 1,
        statuses: Sequence[str] = _RECEIVED,
        batch_size: int | None = RESUME_BATCH,
    ) -> pa.Table:
        """As ``Reader.load_for_resequencer``."""
        where = reads.sequence_conditions(sequence_id, number, statuses)
        order = ("sequence_number", "global_position")
        return self._table(self._handed_on([self._versions.snapshot().rows(where, order, batch_limit(batch_size))]))

    def unfinished(
        self,
        position: int = FIRST_GLOBAL_POSITION,
        batch_size: int | None = RESUME_BATCH,
        as_of: datetime | None = None,
    ) -> pa.Table:
        """As ``Reader.unfinished``."""
        return self._table(self.parts(reads.unfinished(_moment(as_of), position, batch_size)))

    def get_messages(self, position: int = FIRST_GLOBAL_POSITION, batch_size: int | None = BATCH_SIZE) -> pa.Table:
        """As ``Reader.get_messages``."""
        return self._table(self.parts(reads.all_messages(position, batch_size)))

    def latest(self, name: str | None = None, count: int = 10) -> pa.Table:
        """As ``Reader.latest``."""
        return self._newest(reads.of_name(name), batch_limit(count))

    def dead_letters(
        self, reasons: Sequence[str] = (), redriven: bool | None = None, batch_size: int | None = BATCH_SIZE
    ) -> pa.Table:
        """As ``Reader.dead_letters``, with columns of ``dead_letters``."""
        return dead_letter_rows(self._versions, reasons, redriven, batch_size)

    def parts(self, read: Read) -> Iterator[pa.Table]:
        """The rows of a read in its order, a bounded part at a time."""
        return self._handed_on(self._versions.snapshot().pages(read))

    def _newest(self, read: Read, count: int | None) -> pa.Table:
        return self._table(self._handed_on(self._versions.snapshot().newest(read, count)))

    def _handed_on(self, pages: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Check and translate all messages before they are returned."""
        translators = self._versions.translators()
        for page in pages:
            for rows in sound_rows(self._location, page, self._on_broken):
                yield translate_table(rows, translators)

    @staticmethod
    def _table(parts: Iterator[pa.Table]) -> pa.Table:
        return pa.concat_tables([MESSAGES.empty_table(), *parts])


def _moment(as_of: datetime | None) -> datetime:
    return datetime.now(UTC) if as_of is None else time_in_utc("as_of", as_of)
