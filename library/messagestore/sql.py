"""SQL for the tables' query engine; only this module quotes values."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime

from messagestore.errors import ArgumentError
from messagestore_core.clock import from_microseconds, microseconds
from messagestore_core.store import schemas

TABLE = "rows_of_version"
"""The name of the queried table in SQL."""


def literal(text: str) -> str:
    """A text.

    Raises:
        ArgumentError: no bytes in UTF-8 stand for it, as of an argument in another encoding.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ArgumentError(f"{text!r} is no text in UTF-8") from None
    return schemas.literal(text)


def equals(column: str, value: str) -> str:
    """The condition that a column equals a text."""
    return f"{column} = {literal(value)}"


def one_of(column: str, values: Iterable[str | int]) -> str:
    """The condition that a column has one of these values; false without values.

    Raises:
        ArgumentError: they are one text, whose characters would count.
    """
    if isinstance(values, str):
        raise ArgumentError(f"{column}: give a list of texts, [{values!r}], instead of one")
    literals = [str(value) if isinstance(value, int) else literal(value) for value in values]
    return f"{column} in ({', '.join(literals)})" if literals else "false"


def at_least(column: str, number: int) -> str:
    """The condition that a column is at least a number."""
    return f"{column} >= {int(number)}"


def at_most(column: str, number: int) -> str:
    """The condition that a column is at most a number."""
    return f"{column} <= {int(number)}"


def moment(at: datetime) -> str:
    """A time with a zone."""
    return time(microseconds(at))


def time(at: int) -> str:
    """A time by its microseconds; the engine's own literals hold no time after 2262."""
    return f"arrow_cast({at}, 'Timestamp(Microsecond, Some(\"UTC\"))')"


def since(column: str, at: datetime) -> str:
    """The condition that a column is not before a time."""
    return f'"{column}" >= {moment(at)}'


def of_days(column: str, days: Iterable[date]) -> str:
    """The condition that a column is one of these days."""
    literals = [f"date '{day.isoformat()}'" for day in days]
    return f"{column} in ({', '.join(literals)})"


def inserted(at: Sequence[int], since: int | None = None) -> str:
    """The condition that a message was inserted at one of these times, or since another, all in microseconds."""
    days, times = of_days("inserted_date", map(_day, at)), f"inserted_at in ({', '.join(map(time, at))})"
    if since is None:
        return f"{days} and {times}"
    # One condition for days, one for times: the engine chooses files by the first alone.
    return f"({days} or inserted_date >= date '{_day(since)}') and ({times} or inserted_at >= {time(since)})"


def _day(at: int) -> date:
    return from_microseconds(at).date()


def select(columns: Sequence[str], where: Sequence[str], order: Sequence[str], limit: int | None) -> str:
    """The query for columns of the rows that meet all conditions."""
    names = ", ".join(f'"{name}"' for name in columns)
    conditions = f" where {' and '.join(where)}" if where else ""
    ordered = f" order by {', '.join(order)}" if order else ""
    bounded = "" if limit is None else f" limit {limit}"
    return f"select {names} from {TABLE}{conditions}{ordered}{bounded}"
