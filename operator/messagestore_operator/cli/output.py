"""The formats of what commands print, and lines that a terminal can't be fooled by."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import typer

from messagestore_core.text import printable
from messagestore_operator.cli.tables import shown_time

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Output(StrEnum):
    """The formats that resources and messages are printed in."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


def echo(line: str, *, err: bool = False) -> None:
    """Print a line that may have words of others, without what a terminal would interpret."""
    typer.echo(printable(line), err=err)


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
    from pydantic.alias_generators import to_camel

    values = ((to_camel(name), value) for name, value in asdict(record).items())
    return {name: shown_time(value) if isinstance(value, datetime) else value for name, value in values}


def print_yaml(value: dict[str, Any]) -> None:
    """Print a value as one YAML document."""
    # Imported late: the library takes as long to load as all other modules of a command.
    from messagestore_operator.cli.yaml_text import yaml_text

    typer.echo(yaml_text(value), nl=False)
