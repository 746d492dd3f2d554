"""What commands print: formats, tables with colours only on a terminal, and lines that it can't be fooled by."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from messagestore_core.text import camel, clipped, printable

if TYPE_CHECKING:
    from pathlib import Path

    from _typeshed import DataclassInstance
    from rich.console import RenderableType

FAILED, BAD_INPUT = 1, 2
"""Exit codes: what was asked for failed or is not well; arguments or manifests are wrong."""
LONGEST_CELL = 60
_UNBOUNDED = 10_000
"""Characters per line if there is no terminal."""


class Output(StrEnum):
    """The formats that resources and messages are printed in."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="Output format.")]


def echo(line: str, *, err: bool = False) -> None:
    """Print a line that may have words of others, without what a terminal would interpret."""
    typer.echo(printable(line), err=err)


def failure(words: str, code: int = FAILED) -> typer.Exit:
    """The end of a command that can't be carried out, which has told why."""
    echo(f"error: {words}", err=True)
    return typer.Exit(code)


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Report that a file can't be written, and exit."""
    try:
        yield
    except OSError as error:
        raise failure(f"{file} can't be written: {error.strerror}") from None


def json_text(value: dict[str, Any] | list[dict[str, Any]]) -> str:
    """A value as JSON, indented."""
    return plain_json(json.dumps(value, indent=4, ensure_ascii=False))


def plain_json(text: str) -> str:
    """The same JSON, with escapes for what a terminal would interpret: outside its strings JSON has only ASCII."""
    return printable(text, "\n\t", lambda character: json.dumps(character)[1:-1])


def printed(output: Output, value: dict[str, Any] | list[dict[str, Any]], name: str = "") -> bool:
    """Print a value if JSON or YAML is wanted; in YAML a list has a name. Returns whether it was printed."""
    if output is Output.JSON:
        typer.echo(json_text(value))
    elif output is Output.YAML:
        print_yaml({name: value} if isinstance(value, list) else value)
    return output in (Output.JSON, Output.YAML)


def document_of(record: DataclassInstance) -> dict[str, Any]:
    """A record's fields by their names in JSON, with times as text."""
    values = ((camel(name), value) for name, value in asdict(record).items())
    return {name: shown_time(value) if isinstance(value, datetime) else value for name, value in values}


def print_yaml(value: dict[str, Any]) -> None:
    """Print a value as one YAML document."""
    # Imported late: the library takes as long to load as all other modules of a command.
    from messagestore_operator.cli.yaml_text import yaml_text

    typer.echo(yaml_text(value), nl=False)


@dataclass(frozen=True)
class Column:
    """A column's header and its minimum width, so that later rows are aligned."""

    header: str
    least: int = 0


def print_table(
    columns: Iterable[Column], rows: Iterable[Sequence[object]], *, header: bool = True, err: bool = False
) -> None:
    """Print rows, to stderr with ``err``; on a terminal long cells are cut to fit."""
    # Imported late: most commands that could print a table don't.
    from rich.table import Table
    from rich.text import Text

    terminal = (sys.stderr if err else sys.stdout).isatty()
    table = Table(box=None, pad_edge=False, show_header=header, header_style="bold", padding=(0, 3, 0, 0))
    for column in columns:
        table.add_column(
            column.header,
            min_width=max(column.least, len(column.header)),
            no_wrap=True,
            overflow="ellipsis" if terminal else "ignore",
        )
    for row in rows:
        table.add_row(*(Text(shown(cell)) for cell in row))
    print_drawn(table, err=err)


def print_drawn(shown: RenderableType, *, err: bool = False) -> None:
    """Print what rich draws, cut only to the width of a terminal."""
    from rich.console import Console

    file = sys.stderr if err else sys.stdout
    console = Console(file=file, highlight=False, width=None if file.isatty() else _UNBOUNDED)
    with console.capture() as text:
        console.print(shown)
    typer.echo("\n".join(line.rstrip() for line in text.get().splitlines()), err=err)


def print_rows(headers: Iterable[str], rows: Sequence[Sequence[object]], nothing: str) -> None:
    """Print rows below plain headers, or to stderr that there are none."""
    if rows:
        print_table([Column(one) for one in headers], rows)
    else:
        typer.echo(nothing, err=True)


def print_fields(fields: Mapping[str, str], records: Iterable[object], nothing: str) -> None:
    """Print a row for each record, with the field that each column names."""
    print_rows(fields, list(map(attrgetter(*fields.values()), records)), nothing)


def shown(value: object) -> str:
    """A cell's text: of bytes the beginning, of a record's source its place, of a list its texts."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return shown_time(value)
    if isinstance(value, bytes):
        value = clipped(value[: 4 * LONGEST_CELL].decode(errors="replace"), LONGEST_CELL)
    elif isinstance(value, Mapping):
        value = f"{value['uri']}#{value['offset']}"
    elif isinstance(value, list):
        value = ", ".join(value)
    return printable(str(value))


def shown_time(moment: datetime) -> str:
    """A time in UTC, to the second."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"
