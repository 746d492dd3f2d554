"""SQL for the tables' query engine; only this module quotes values."""

from collections.abc import Iterable, Sequence

from messagestore_core.store.schemas import literal

TABLE = "rows_of_version"
"""The name of the queried table in SQL."""


def equals(column: str, value: str) -> str:
    """The condition that a column equals a text."""
    return f"{column} = {literal(value)}"


def one_of(column: str, values: Iterable[str | int]) -> str:
    """The condition that a column has one of these values; false without values."""
    literals = [str(value) if isinstance(value, int) else literal(value) for value in values]
    return f"{column} in ({', '.join(literals)})" if literals else "false"


def at_least(column: str, number: int) -> str:
    """The condition that a column is at least a number."""
    return f"{column} >= {int(number)}"


def select(columns: Sequence[str], where: Sequence[str], order: Sequence[str], limit: int | None) -> str:
    """The query for columns of the rows that meet all conditions."""
    names = ", ".join(f'"{name}"' for name in columns)
    conditions = f" where {' and '.join(where)}" if where else ""
    ordered = f" order by {', '.join(order)}" if order else ""
    bounded = "" if limit is None else f" limit {limit}"
    return f"select {names} from {TABLE}{conditions}{ordered}{bounded}"
