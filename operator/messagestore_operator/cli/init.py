"""``messagestore init``: look at files, and write a manifest of a stream that reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from messagestore_operator.cli.output import BAD_INPUT, echo, failure, writing
from messagestore_operator.cli.store import reporting

if TYPE_CHECKING:
    from messagestore.location import Location
    from messagestore_operator.propose.mapping import Mapped
    from messagestore_operator.propose.sample import SampledFile
    from messagestore_operator.propose.shapes import Shape

_SHOWN = 3

Folder = Annotated[
    str,
    typer.Argument(
        metavar="FOLDER",
        show_default=False,
        help="The folder that files arrive in: s3a://…, file:///… or a path. Object storage is reached by AWS' "
        "variables, as in other commands.",
    ),
]
Target = Annotated[
    Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write the manifest. Default: stdout.")
]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="The stream's name. Default: by the folder's.")
]


def init(folder: Folder, output: Target = None, name: Name = None) -> None:
    """Look at a sample of a folder's files, and write a MessageStream that reads them.

    Comments in the manifest give the reason of each choice. The first records as they would be stored, and what would
    be set aside, go to stderr. Nothing is asked, and nothing but FILE is written.

    Exits 0 with a manifest that `validate` accepts, 1 if the files give none, 2 if FILE exists.
    """
    if output is not None:
        with writing(output):
            if output.exists():
                raise failure(f"{output} exists: name another file, or remove it", BAD_INPUT)
    with reporting():
        text = _proposed(folder, name)
    if output is None:
        typer.echo(text, nl=False)
    else:
        with writing(output):
            output.write_text(text, encoding="utf-8")
        echo(f"{output}: check it, then: messagestore validate -f {output}", err=True)


def _proposed(folder: str, name: str | None) -> str:
    # Imported late, as the library takes long to load.
    import os

    from messagestore.location import Location, entries_of
    from messagestore_operator.manifests.load import load_text
    from messagestore_operator.propose.manifest import category, manifest, stream_name
    from messagestore_operator.propose.mapping import map_fields
    from messagestore_operator.propose.sample import sample_files
    from messagestore_operator.propose.shapes import find_shape

    with closing(Location(folder)) as location:
        _check_folder(location)
        files = sample_files(location)
    if not files:
        raise failure(f"{folder} has no files; names that begin with . or _ don't count")
    name = name or stream_name(location.uri)
    shape = find_shape(files)
    if not shape.records:
        raise failure(f"{len(files)} files of {folder} have no record in their first bytes")
    if shape.format == "Text" and (binary := [file.name for file in files if b"\0" in file.head]):
        raise failure(
            f"{binary[0]} of {folder} is no text in UTF-8, as Avro, Parquet, zip and UTF-16 are not: a stream "
            "reads JSON and lines of text"
        )
    mapped = map_fields(shape, category(name))
    entries = entries_of(location.uri, os.environ)
    head = (
        f"By messagestore init, from a sample: {len(shape.records)} records, {len(files)} of the folder's files"
        f"{_compressed(files)}."
    )
    text = manifest(location.uri, name, shape, mapped, entries[0] if entries else None, head)
    if problems := load_text("", text).problems:
        raise failure("; ".join(f"{problem.path} {problem.message}" for problem in problems))
    _show(shape, mapped)
    return text


def _check_folder(location: Location) -> None:
    """Refuse a path of this machine that is no folder; object storage has none."""
    from messagestore_core.store.objects import is_local, local_path

    path = Path(local_path(location.uri))
    if is_local(location.uri) and not path.is_dir():
        raise failure(
            f"{path} is a file: name the folder that has it" if path.exists() else f"there is no folder {path}"
        )


def _compressed(files: Sequence[SampledFile]) -> str:
    """How many files of a sample are compressed, and how, by their first bytes."""
    counts = Counter(file.compression for file in files if file.compression)
    said = ", ".join(f"{count} {compression}" for compression, count in sorted(counts.items()))
    return f" ({said}, read unpacked)" if said else ""


def _show(shape: Shape, mapped: Mapped) -> None:
    from messagestore_operator.cli.output import Column, print_table
    from messagestore_operator.propose.preview import previews, set_aside

    columns = [Column(header) for header in ("ID", "STREAM", "TYPE", "TIME", "PAYLOAD")]
    samples = list(previews(shape, mapped))
    print_table(columns, samples[:_SHOWN], err=True)
    for line in set_aside(shape, mapped, samples):
        echo(line, err=True)
