"""The functions that ``Reader`` and ``ArrowReader`` have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Generic, TypeVar

import pyarrow as pa

from messagestore import reads
from messagestore.arguments import BATCH_SIZE, batch_limit, time_in_utc
from messagestore.audit import audit_rows
from messagestore.dead_letters import dead_letter_rows
from messagestore.reads import FIRST_GLOBAL_POSITION, FIRST_POSITION
from messagestore.rows import Rows

RESUME_BATCH = 100
"""How many messages the pattern's functions load at once."""
_RECEIVED = ("RECEIVED",)
_Messages = TypeVar("_Messages")
_Newest = TypeVar("_Newest")
_Message = TypeVar("_Message")
_DeadLetters = TypeVar("_DeadLetters")
_Audit = TypeVar("_Audit")


class Functions(ABC, Generic[_Messages, _Newest, _Message, _DeadLetters, _Audit]):
    """The functions; a subclass gives their results one form."""

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
        return self._messages(self._rows.parts(reads.arrived_since(None, position - 1, batch_size, where)))

    def find(
        self,
        statuses: Sequence[str] = (),
        types: Sequence[str] = (),
        correlation_id: str | None = None,
        causation_id: str | None = None,
        since: datetime | None = None,
        where: str | tuple[str, ...] | None = None,
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
            where: that meet this condition, in the language of docs/filters.md, or all of several.
            position: the global position to begin with; absent: the newest or the oldest.
            batch_size: how many at most; -1: no limit.
            newest_first: False: in order of arrival.
            payloads: whether payloads are read, too.

        Raises:
            ArgumentError: there is no such status, or the condition is refused.
        """
        wanted = (statuses, types, correlation_id, causation_id, since, where, position, batch_size)
        read = reads.matching(*wanted, newest_first=newest_first, payloads=payloads)
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
