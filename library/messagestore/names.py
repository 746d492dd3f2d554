"""Parts of a stream's name: message-db's helper functions, with the same results for absent values."""

import hashlib


def category(stream_name: str | None) -> str | None:
    """The text before the first ``-``; the whole name where there is none."""
    return None if stream_name is None else stream_name.partition("-")[0]


def id(stream_name: str | None) -> str | None:
    """The text after the first ``-``; None where there is none."""
    if stream_name is None or "-" not in stream_name:
        return None
    return stream_name.partition("-")[2]


def cardinal_id(stream_name: str | None) -> str | None:
    """The id up to its first ``+``, by which streams with compound ids go to the same consumer."""
    own = id(stream_name)
    return None if own is None else own.partition("+")[0]


def is_category(stream_name: str | None) -> bool:
    """Whether a name is a category: it has no ``-``. An absent name counts as one, as in message-db."""
    return stream_name is None or "-" not in stream_name


def hash_64(value: str | None) -> int | None:
    """The first 64 bits of the MD5 of the text in UTF-8, as a signed number."""
    if value is None:
        return None
    digest = hashlib.md5(value.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
