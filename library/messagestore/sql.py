"""SQL as the tables' engine takes it, written from values that are quoted here and nowhere else."""

from collections.abc import Iterable, Sequence

from messagestore_core.store.schemas import literal

TABLE = "rows_of_version"
"""What the engine calls the one table that it reads."""


def equals(column: str, value: str) -> str:
    """A column holds one text."""
    return f"{column} = {literal(value)}"


def one_of(column: str, values: Iterable[str | int]) -> str:
    """A column holds one of these; never true of none."""
    literals = [str(value) if isinstance(value, int) else literal(value) for value in values]
    return f"{column} in ({', '.join(literals)})" if literals else "false"


def at_least(column: str, number: int) -> str:
    """A column is not below a number."""
    return f"{column} >= {int(number)}"


def select(columns: Sequence[str], where: Sequence[str], order: Sequence[str], limit: int | None) -> str:
    """Columns of the rows that meet every condition."""
    names = ", ".join(f'"{name}"' for name in columns)
    conditions = f" where {' and '.join(where)}" if where else ""
    ordered = f" order by {', '.join(order)}" if order else ""
    bounded = "" if limit is None else f" limit {limit}"
    return f"select {names} from {TABLE}{conditions}{ordered}{bounded}"
