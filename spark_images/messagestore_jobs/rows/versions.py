"""Translators as column expressions over ``messages``."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.records import FieldSource, Translator
from messagestore_core.versions.rules import COLUMNS, FIRST_VERSION, emptied, in_order, parse_path, taken_out


def translated(rows: DataFrame, translators: Sequence[Translator]) -> DataFrame:
    """The rows at the current version; ``payload`` must have claimed payloads too."""
    for translator in in_order(translators):
        rows = _next(rows, translator)
    return rows


def _next(rows: DataFrame, translator: Translator) -> DataFrame:
    due = F.coalesce(F.col("schema_version"), F.lit(FIRST_VERSION)) == translator.from_version
    changed: dict[str, Column] = {name: F.lit(None).cast("string") for name in emptied(translator)}
    for name, source in translator.fields.items():
        renamed = F.col(COLUMNS[source.rename]) if source.rename is not None else None
        changed[COLUMNS[name]] = _value(source, F.col(COLUMNS[name]), renamed)
    if translator.headers:
        changed["headers"] = _headers(translator)
    changed["schema_version"] = F.lit(translator.from_version + 1)
    return rows.withColumns({name: F.when(due, new).otherwise(F.col(name)) for name, new in changed.items()})


def _headers(translator: Translator) -> Column:
    own = F.coalesce(F.col("headers"), F.create_map().cast("map<string,string>"))
    gone = taken_out(translator)
    kept = F.map_filter(own, lambda name, _: ~name.isin(*sorted(gone)))
    pairs: list[Column] = []
    for name, source in sorted(translator.headers.items()):
        renamed = own[F.lit(source.rename)] if source.rename is not None else None
        pairs += [F.lit(name), _value(source, own[F.lit(name)], renamed)]
    added = F.map_filter(F.create_map(*pairs), lambda _, value: value.isNotNull())
    every = F.map_concat(kept, added)
    return F.when(F.col("headers").isNotNull() | (F.size(every) > 0), every)


def _value(source: FieldSource, own: Column, renamed: Column | None) -> Column:
    if source.value is not None:
        return F.lit(source.value)
    value = own if renamed is None else renamed
    if source.path is not None:
        value = _at(source.path)
    return value if source.default is None else F.coalesce(value, F.lit(source.default))


def _at(path: str) -> Column:
    document, within = parse_path(path)
    if document == "headers":
        return F.col("headers")[F.lit(within[0])]
    return F.call_function("messagestore.json_text", F.col(document).cast("binary"), F.lit(_path(within)))


def _path(within: Sequence[str | int]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f"['{_escaped(step)}']" for step in within)


def _escaped(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")
