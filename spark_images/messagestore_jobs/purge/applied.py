"""What scrubs have taken from a row, as column ``scrubs`` says it: one text for each place, with the method.

A scrub is due where a row lacks one of its texts. Texts are only added, so that two policies over the same messages
come to an end, and a place is never hashed twice by the same method. A row that a release without the column has
scrubbed says nothing, and is scrubbed once more.
"""

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Scrub


def due(what: Scrub, prefix: str = "") -> Column:
    """Whether any of what is named has not been taken from a row yet; ``prefix`` stands before the column's name."""
    return F.size(F.array_except(_texts(what), said(prefix))) > 0


def after(what: Scrub, prefix: str = "") -> Column:
    """What the row says when it has been scrubbed."""
    return F.array_union(said(prefix), _texts(what))


def said(prefix: str = "") -> Column:
    """What a row says by now; nothing where it is null."""
    return F.coalesce(F.col(f"{prefix}scrubs"), F.array().cast("array<string>"))


def left(what: Scrub, kind: str, names: Sequence[str], applied: Column) -> Column:
    """Those of the names of one kind of place that have not been taken from a row that says ``applied``."""
    texts = F.array(*map(F.lit, names)).cast("array<string>")
    return F.filter(texts, lambda name: ~F.array_contains(applied, F.concat(F.lit(_text(what, kind, "")), name)))


def names_of(what: Scrub) -> dict[str, tuple[str, ...]]:
    """What a scrub names by kind of place; headers whatever their case, as a sender's spelling must not save one."""
    return {
        "payload": what.payload_paths,
        "metadata": what.metadata_paths,
        "result": what.result_paths,
        "header": tuple(name.lower() for name in what.headers),
        "error": ("",) if what.error else (),
        "dead letters": ("",) if what.dead_letters else (),
    }


def _texts(what: Scrub) -> Column:
    texts = [_text(what, kind, name) for kind, names in names_of(what).items() for name in names]
    return F.array(*map(F.lit, texts)).cast("array<string>")


def _text(what: Scrub, kind: str, name: str) -> str:
    return f"{what.method} {kind} {name}"
