"""The headers that mark a replayed message."""

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

_COLUMNS = {
    "position": "position",
    "globalPosition": "global_position",
    "streamName": "stream_name",
    "messageId": "message_id",
    "attempt": "attempt",
}
ATTEMPT = "x-attempt"
"""The header that tells which attempt a message is sent for; an update of it names the same."""
_RUN = ("job", "run", "time")
_NAME = re.compile(r"\{(" + "|".join([*_COLUMNS, *_RUN]) + r")\}")


def marked_headers(marks: dict[str, str], values: dict[str, str]) -> Column:
    """A message's headers with the marks among them; a mark takes the place of a header of its name.

    Args:
        marks: a template by header; ``{job}``, ``{run}`` and ``{time}`` stand for what ``values`` holds,
            ``{position}``, ``{globalPosition}``, ``{streamName}``, ``{messageId}`` and ``{attempt}`` for the message's
            own. Any other brace is itself.
        values: of job, run and time.
    """
    own = F.coalesce(F.col("headers"), F.create_map().cast("map<string,string>"))
    entries = [part for name, template in sorted(marks.items()) for part in (F.lit(name), _filled(template, values))]
    # Without the marks first, so that the result does not hang on how a session treats a key that is there twice.
    kept = F.map_filter(own, lambda name, _: ~name.isin(*sorted(marks)))
    return F.map_concat(kept, F.create_map(*entries))


def _filled(template: str, values: dict[str, str]) -> Column:
    pieces = _NAME.split(template)
    columns = [_part(piece, values) if i % 2 else F.lit(piece) for i, piece in enumerate(pieces) if piece]
    return F.concat(*columns) if columns else F.lit("")


def _part(name: str, values: dict[str, str]) -> Column:
    if name in _COLUMNS:
        return F.col(_COLUMNS[name]).cast("string")
    return F.lit(values[name])
