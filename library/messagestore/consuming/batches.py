"""Messages that are handled in a transaction of the caller's database, which also moves their cursors."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable
from uuid import uuid4

from messagestore.consuming.cursors import Change, CursorStore, Kept
from messagestore.errors import LeaseLostError, StorageError
from messagestore.message import Message


@runtime_checkable
class TransactionalCursors(CursorStore, Protocol):
    """Cursors in a database, which a transaction of the caller's can move."""

    def swap_within(self, connection: Any, changes: Sequence[Change]) -> int:
        """Make the changes whose conditions hold in a transaction of the caller's; returns how many those were."""


class Batch:
    """Messages in order of arrival, to be handled in one transaction."""

    def __init__(
        self, messages: Sequence[Message], cursors: TransactionalCursors, changes: Callable[[], Sequence[Change]]
    ) -> None:
        self.messages = messages
        self._cursors, self._changes = cursors, changes

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def __len__(self) -> int:
        return len(self.messages)

    def move(self, connection: Any) -> None:
        """Move the cursors behind the messages, in the transaction of a connection, which the caller then commits.

        Raises:
            LeaseLostError: another consumer has taken the slots: roll the transaction back.
        """
        changes = self._changes() if self.messages else []
        if self._cursors.swap_within(connection, changes) != len(changes):
            raise LeaseLostError(
                "the lease ended before these messages were handled, and another consumer has them: roll back; the "
                "next batch() has others. If it happens often, give a longer lease or a smaller batch_size"
            )


class PostgresCursors:
    """Cursors in a table of a PostgreSQL database, for ``Consumer.batch`` or for consumers without object storage.

    Args:
        connect: opens a connection of DB-API 2.0 that takes parameters as ``%s``, such as psycopg's; the cursors have
            one of their own.
        name: the consumers' name.
    """

    TABLE = (
        "CREATE TABLE messagestore_consumers "
        "(consumer text, name text, document text NOT NULL, mark text NOT NULL, PRIMARY KEY (consumer, name))"
    )
    """Make this table before the first consumer begins."""

    def __init__(self, connect: Callable[[], Any], name: str) -> None:
        self._connect, self._name = connect, name
        self._own: Any = None

    def names(self) -> list[str]:
        """The names of all documents."""
        rows = self._transaction(lambda c: _rows(c, f"SELECT name FROM {_TABLE} WHERE consumer = %s", (self._name,)))
        return [name for (name,) in rows]

    def read(self, names: Sequence[str]) -> dict[str, Kept]:
        """The documents that are there."""
        query = f"SELECT name, document, mark FROM {_TABLE} WHERE consumer = %s AND name = ANY(%s)"
        rows = self._transaction(lambda c: _rows(c, query, (self._name, [*names])))
        return {name: Kept(document.encode(), mark) for name, document, mark in rows}

    def swap(self, changes: Sequence[Change]) -> dict[str, str | StorageError]:
        """Make each change whose condition holds."""
        try:
            return dict(self._transaction(lambda connection: self._swapped(connection, changes)))
        except StorageError as error:
            return {change.name: error for change in changes}

    def swap_within(self, connection: Any, changes: Sequence[Change]) -> int:
        """Make the changes whose conditions hold in a transaction of the caller's; returns how many those were."""
        return len(self._swapped(connection, changes))

    def put(self, name: str, content: bytes) -> None:
        """Write a document that nobody else writes."""
        query = (
            f"INSERT INTO {_TABLE} (consumer, name, document, mark) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT (consumer, name) DO UPDATE SET document = excluded.document, mark = excluded.mark"
        )
        self._transaction(lambda c: _count(c, query, (self._name, name, content.decode(), uuid4().hex)))

    def delete(self, name: str) -> None:
        """Delete a document if it is there."""
        query = f"DELETE FROM {_TABLE} WHERE consumer = %s AND name = %s"
        self._transaction(lambda c: _count(c, query, (self._name, name)))

    def close(self) -> None:
        """Close the connection of the cursors."""
        own, self._own = self._own, None
        if own is not None:
            own.close()

    def _swapped(self, connection: Any, changes: Sequence[Change]) -> list[tuple[str, str]]:
        """The names and new marks of the changes whose conditions hold."""
        done = []
        # In one order, so that no two wait for each other.
        for name, content, mark in sorted(changes):
            new = uuid4().hex
            if mark is None:
                query = (
                    f"INSERT INTO {_TABLE} (document, mark, consumer, name) VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT DO NOTHING"
                )
            else:
                query = f"UPDATE {_TABLE} SET document = %s, mark = %s WHERE consumer = %s AND name = %s AND mark = %s"
            values = (content.decode(), new, self._name, name, *([] if mark is None else [mark]))
            if _count(connection, query, values):
                done.append((name, new))
        return done

    def _transaction(self, work: Callable[[Any], Any]) -> Any:
        """Do some work in a transaction of the cursors' own connection."""
        try:
            if self._own is None:
                self._own = self._connect()
                # A transaction of the caller's that isn't committed yet may keep a cursor.
                _count(self._own, "SET lock_timeout = '10s'", ())
            result = work(self._own)
            self._own.commit()
        except Exception as error:  # Each driver has errors of its own.
            # It is broken, and another one will be opened.
            with suppress(Exception):
                self.close()
            raise StorageError(f"the cursors of consumer {self._name} can't be reached: {error}") from error
        return result


_TABLE = "messagestore_consumers"


def _rows(connection: Any, query: str, values: Sequence[Any]) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return list(cursor.fetchall())


def _count(connection: Any, query: str, values: Sequence[Any]) -> int:
    with connection.cursor() as cursor:
        cursor.execute(query, values)
        return int(cursor.rowcount)
