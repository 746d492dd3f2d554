"""From selected rows to the records that are sent: without messages that were erased since, and with marking headers.

Payloads of claim checks are filled in, and all payloads are checked to be what was stored.
"""

import re
from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.records import FieldSource, Integrity, Translator
from messagestore_core.reasons import DeadLetterReason
from messagestore_core.store.tombstones import open_erased
from messagestore_core.versions import COLUMNS, FIRST_VERSION, emptied, in_order, parse_path, taken_out
from messagestore_jobs.frozen.replays import Frozen
from messagestore_jobs.integrity import is_sealed
from messagestore_jobs.native import LineBreaks, base64_string, json_string, rfc3339
from messagestore_jobs.replay.chunks import ChunkRange
from messagestore_jobs.replay.cloud_events import headers
from messagestore_jobs.replay.envelopes import with_topic, with_value
from messagestore_jobs.replay.source import Source
from messagestore_jobs.rows.claim_checks import is_own_claim_check, lacks_object, spread, with_claim_check_payloads
from messagestore_jobs.rows.matching import instant

_COLUMNS = {
    "position": "position",
    "globalPosition": "global_position",
    "streamName": "stream_name",
    "messageId": "message_id",
    "attempt": "attempt",
}
ATTEMPT = "x-attempt"
"""The header with the number of the attempt; updates of that attempt have the same number."""
_RUN = ("job", "run", "time")
_NAME = re.compile(r"\{(" + "|".join([*_COLUMNS, *_RUN]) + r")\}")


def message_records(source: Source, frozen: Frozen, chunk_range: ChunkRange, line_breaks: LineBreaks) -> DataFrame:
    """The key and what is staged (string ``value``) of each message; value is null if it can't be sent.

    It is also null with ``_expired``, of a message that has expired and is to be skipped.
    """
    rows = without_erased(source.between(chunk_range.cuts[0], chunk_range.end), source)
    # Of the run that began the replay, so that all runs write the same marks.
    values = values_of(source.task.job_id, frozen.run, frozen.at)
    return as_records(rows, source, values, chunk_range.claim_checks, line_breaks)


def as_records(
    rows: DataFrame, source: Source, values: dict[str, str], claim_checks: int, line_breaks: LineBreaks
) -> DataFrame:
    """Like ``message_records``, for rows with their key, none of them erased, of which some have claim checks.

    ``values`` are those of the marks, see ``marked_headers``.
    """
    if claim_checks:
        rows = with_payloads(rows, source, claim_checks)
    rows = with_topic(rows, source.task.to)
    rows = translated(
        rows.select("*", is_sound(source.store.uri, source.task.integrity).alias("_sound")), source.task.translators
    )
    own_marks = {ATTEMPT: "{attempt}"} if source.task.select.due_for_retry else {}
    if marks := {**source.task.mark_headers, **own_marks}:
        rows = rows.withColumn("attempt", F.col("retries") + 1)
        rows = rows.withColumn("headers", marked_headers(marks, values))
    if source.task.select.due_for_retry:
        # The status in the store now; the frozen version has the one before.
        rows = rows.withColumns({"status": F.lit("PROCESSING"), "next_retry_at": F.lit(None).cast("timestamp")})
    expired = F.lit(False)
    if source.task.skip_expired:
        expired = F.coalesce(F.col("expires_at") <= instant(source.clock()), expired)
    rows = with_value(rows.withColumn("_expired", expired), source.task.to, source.owner, line_breaks)
    value = F.when(F.col("_sound") & ~F.col("_expired"), F.col("value")).alias("value")
    return rows.select(*source.order.columns, value, "_expired")


def raw_records(source: Source, chunk_range: ChunkRange) -> DataFrame:
    """The key, original bytes (binary ``value``), headers, source and failed_at of each dead letter."""
    rows = source.between(chunk_range.cuts[0], chunk_range.end)
    # A version of an earlier release has no headers.
    headers = F.col("headers") if "headers" in rows.columns else F.lit(None).cast("map<string,string>").alias("headers")
    # These have only a part of the record, so the ingest must set them aside again.
    too_large = F.col("reason") == str(DeadLetterReason.RECORD_TOO_LARGE)
    cut = F.coalesce("cut", F.lit(False)) if "cut" in rows.columns else F.lit(False)
    fault = F.when(too_large | cut, F.coalesce("detail", F.lit("only a part of it is kept"))).alias("fault")
    own = F.col("raw").alias("value"), headers, fault, too_large.alias("too_large"), F.col("failed_at")
    place = (F.col(f"source.{name}").alias(name) for name in ("uri", "offset", "partition", "kind"))
    return rows.select(*source.order.columns, *own, *place, *_message_id(rows))


def dead_letter_records(source: Source, chunk_range: ChunkRange) -> DataFrame:
    """The key and a JSON object (string ``value``) of each dead letter, for people."""
    rows = source.between(chunk_range.cuts[0], chunk_range.end)
    named = [message_id.alias("messageId") for message_id in _message_id(rows)]
    failed_at = rfc3339(F.col("failed_at")).alias("failedAt")
    about = F.struct(F.col("reason"), F.col("detail"), failed_at, F.col("source"), *named)
    head = F.to_json(about).cast("binary")
    value = F.concat(F.substring(head, F.lit(1), F.octet_length(head) - 1), _raw_member(), F.lit(b"}"))
    return rows.select(*source.order.columns, value.cast("string").alias("value"))


def without_erased(rows: DataFrame, source: Source) -> DataFrame:
    """Rows of ``messages`` without erased ones; without tombstones no id is read."""
    erased = open_erased(source.store)
    if not erased.any():
        return rows
    suspects = rows.select("message_id", "global_position")
    if erased.have_positions:
        buried = source.spark.createDataFrame(pa.table({"global_position": erased.positions}))
        suspects = suspects.join(F.broadcast(buried), "global_position", "left_semi")
    chosen = suspects.toArrow()
    erased_ones = erased.contains_messages(chosen["message_id"], chosen["global_position"])
    gone = chosen.filter(pa.array(erased_ones)).select(["global_position"])
    if not gone.num_rows:
        return rows
    left = rows.join(F.broadcast(source.spark.createDataFrame(gone)), "global_position", "left_anti")
    return left.select(*rows.columns)


def marked_headers(marks: dict[str, str], values: dict[str, str]) -> Column:
    """A message's headers with marks; a mark replaces a header of the same name.

    Args:
        marks: templates by header. ``{job}``, ``{run}`` and ``{time}`` are replaced by ``values``, and ``{position}``,
            ``{globalPosition}``, ``{streamName}``, ``{messageId}`` and ``{attempt}`` by the message's own. Any other
            brace stays.
        values: of job, run and time.
    """
    entries = [part for name, template in sorted(marks.items()) for part in (F.lit(name), _filled(template, values))]
    # Remove headers of the marks' names first, so that the session's rule for repeated keys doesn't matter.
    kept = F.map_filter(headers(), lambda name, _: ~name.isin(*sorted(marks)))
    return F.map_concat(kept, F.create_map(*entries))


def with_payloads(rows: DataFrame, source: Source, count: int) -> DataFrame:
    """The rows with payloads of claim checks, about ``count``; null if the object is not in the store.

    If the object is gone, the newest row of the message is taken, if there is one: it was scrubbed since.
    """
    uri = source.store.uri
    filled = with_claim_check_payloads(rows, uri, count)
    missing = (
        spread(rows.where(is_own_claim_check(uri)), count).where(lacks_object(uri)).select("global_position").toArrow()
    )
    if not missing.num_rows:
        return filled
    stale = F.broadcast(source.spark.createDataFrame(missing))
    newest = source.order.keyed(source.current()).join(stale, "global_position", "left_semi").select(*rows.columns)
    left = rows.join(stale, "global_position", "left_semi")
    left = left.join(newest.select("global_position"), "global_position", "left_anti")
    kept = filled.join(stale, "global_position", "left_anti").select(*rows.columns)
    return kept.unionByName(with_claim_check_payloads(newest, uri, missing.num_rows)).unionByName(
        left.select(*rows.columns)
    )


def is_sound(uri: str, integrity: Integrity | None) -> Column:
    """Whether a row's payload is there and matches its digest, and the row matches its seal.

    A claim check's payload must also be the store's own and match its size.

    Raises:
        RunFailedError: the stream seals its messages, and the key is missing.
    """
    payload, digest = F.col("payload"), F.col("payload_sha256")
    same = F.coalesce(F.sha2(payload, 256) == digest, F.lit(False))
    as_long = F.coalesce(F.octet_length(payload) == F.col("payload_size"), F.lit(False))
    whole = F.when(F.col("payload_uri").isNotNull(), is_own_claim_check(uri) & same & as_long).otherwise(
        payload.isNull() | digest.isNull() | same
    )
    if integrity is None:
        return whole
    # With seals a payload must have a digest, as the seal covers the payload by it.
    return whole & (payload.isNull() | digest.isNotNull()) & is_sealed(integrity)


def values_of(job_id: str, run: str, began: datetime) -> dict[str, str]:
    """Values of marks."""
    return {"job": job_id, "run": run, "time": began.isoformat().replace("+00:00", "Z")}


def _message_id(rows: DataFrame) -> list[Column]:
    """The message id of dead letters; a version of an earlier release has none."""
    return [F.col("message_id")] if "message_id" in rows.columns else []


def _raw_member() -> Column:
    text = F.col("raw").cast("string")
    base64 = F.concat(F.lit(b',"rawBase64":'), base64_string(F.col("raw")))
    return (
        F.when(F.col("raw").isNull(), F.lit(b""))
        .when(F.is_valid_utf8(text), F.concat(F.lit(b',"raw":'), json_string(text)))
        .otherwise(base64)
    )


def _filled(template: str, values: dict[str, str]) -> Column:
    pieces = _NAME.split(template)
    columns = [_part(piece, values) if i % 2 else F.lit(piece) for i, piece in enumerate(pieces) if piece]
    return F.concat(*columns) if columns else F.lit("")


def _part(name: str, values: dict[str, str]) -> Column:
    if name in _COLUMNS:
        return F.col(_COLUMNS[name]).cast("string")
    return F.lit(values[name])


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
    own, gone = headers(), taken_out(translator)
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
