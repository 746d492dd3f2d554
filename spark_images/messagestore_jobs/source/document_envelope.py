"""Values of the document around a record's array: in column ``about`` of ``read_records``, as JSON text.

A dead letter keeps them in its headers, so that a redrive knows the same. See ``DocumentValues`` of the extension.
"""

from collections.abc import Iterable

from pyspark.sql import Column
from pyspark.sql import functions as F

from messagestore_core.contract.records import ValueMapping

_PREFIX = "document-"
_LONGEST = 1024
_WORDS = {"damaged": "can't be told: the document is damaged", "twice": "is in the document twice"}


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
