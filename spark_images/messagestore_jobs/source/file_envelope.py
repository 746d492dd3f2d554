"""What is known of a record's file and of the document around it: in column ``about`` of ``read_planned``.

Of the file these are its path below the source, its time, and the record's place in it; of the document the values that
mappings name, as JSON text: see ``DocumentValues`` of the extension. A dead letter keeps them as its headers, so that a
redrive knows the same.
"""

from collections.abc import Iterable
from datetime import UTC

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.contract.records import ValueMapping
from messagestore_core.store.files import GENERATION, SourceFile
from messagestore_core.store.objects import beginning
from messagestore_jobs.source.columns import headers_of

PATH = "file-path"
MODIFIED_AT = "file-modified-at"
_PREFIX = "document-"
_LONGEST = 1024
_WORDS = {"damaged": "can't be told: the document is damaged", "twice": "is in the document twice"}


def names_of(mappings: Iterable[ValueMapping]) -> frozenset[str]:
    """Which names of ``about`` mappings need."""
    of_files = [mapping for mapping in mappings if mapping.of_file]
    times = {MODIFIED_AT for mapping in of_files if mapping.file == "ModifiedAt"}
    return frozenset(times | {PATH for mapping in of_files if mapping.file not in ("ModifiedAt", "Place")})


def about(file: SourceFile, names: frozenset[str], source: str) -> dict[str, str]:
    """What is known of a file, by those of the names; ``source`` is the folder that it is below."""
    # A source may be one file.
    path = file.uri[len(beginning(source)) :] or file.uri.rpartition("/")[2]
    time = file.modified_at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {name: text for name, text in ((PATH, path), (MODIFIED_AT, time)) if name in names}


def about_before(headers: Column, below: str | None) -> Column:
    """Column about of a dead letter with these headers; its path is that of its URI if no header tells it.

    The stream reads files ``below`` a folder; None: it reads no files.
    """
    known = headers_of(headers)
    if below is None:
        return known
    path = F.substr("uri", F.lit(len(beginning(below)) + 1))
    of_uri = F.create_map(F.lit(PATH), F.regexp_replace(path, f"{GENERATION}[0-9]+$", ""))
    is_below = F.startswith("uri", F.lit(beginning(below)))
    return F.when(is_below, F.map_concat(of_uri, known)).otherwise(known)


def of_file(mapping: ValueMapping) -> Column:
    """A value of the record's file, as text."""
    path = F.col("about").getItem(PATH)
    if mapping.partition is not None:
        return F.call_function("messagestore.partition", path, F.lit(mapping.partition))
    match mapping.file:
        case "Path":
            value = path
        case "Name":
            value = F.substring_index(path, "/", -1)
        case "ModifiedAt":
            value = F.col("about").getItem(MODIFIED_AT)
        case _:
            value = place()
    return F.call_function("messagestore.group", value, F.lit(mapping.pattern)) if mapping.pattern else value


def place() -> Column:
    """The place of a record: the URI of its file, and the byte at which it begins."""
    return F.concat(F.col("uri"), F.lit("#"), F.col("offset").cast("string"))


def paths_of(mappings: Iterable[ValueMapping]) -> dict[str, str]:
    """The paths that are looked for in documents, by their names in ``about``."""
    return {_name(mapping): mapping.path for mapping in mappings if mapping.path is not None and mapping.of_document}


def of_document(mapping: ValueMapping) -> Column:
    """A value of the document, as text: a string's characters, or the JSON text of another scalar."""
    return F.call_function("messagestore.json_text", _json(mapping).cast("binary"), F.lit("$"))


def problem(mapping: ValueMapping) -> Column:
    """What is wrong with a value of the document, in words that follow its name; null: nothing."""
    json = _json(mapping)
    known = F.lit(None).cast("string")
    for word, words in _WORDS.items():
        known = F.when(json == word, words).otherwise(known)
    return (
        F.when(F.octet_length(json) > _LONGEST, f"has more than {_LONGEST} bytes of JSON")
        .when(known.isNotNull(), known)
        .when(json.startswith("{") | json.startswith("["), "is an object or an array")
        .when((json != "null") & of_document(mapping).isNull(), "is no JSON")
    )


def _json(mapping: ValueMapping) -> Column:
    return F.col("about").getItem(_name(mapping))


def _name(mapping: ValueMapping) -> str:
    return f"{_PREFIX}{mapping.path}"
