"""Scrubbing: the row stays without the named values, and column ``scrubs`` lists them, one text each, with the method.

A scrub is due if the row lacks one of its texts. Texts are only added, so that two policies over the same messages
don't scrub for ever, and no value is hashed twice by the same method. Rows that a release without the column scrubbed
are scrubbed once more.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.purge import Scrub
from messagestore_core.contract.records import Integrity
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.purges import Plan
from messagestore_jobs.context import PurgeRun
from messagestore_jobs.frozen.purges import frozen_rows, messages_of
from messagestore_jobs.integrity import held, key_of, keys_of, matches, own_columns, seal
from messagestore_jobs.purge.claim_checks import delete_claim_checks, rewrite_claim_checks
from messagestore_jobs.purge.dead_letters import by_id, forget_copies
from messagestore_jobs.purge.history import scrub_history
from messagestore_jobs.rows.matching import instant
from messagestore_jobs.rows.messages import MERGE, bounds, committing, merging, read_messages, within
from messagestore_jobs.session import settings

REDACTED = "[redacted]"
"""Replaces values with method Redact."""


def is_due(what: Scrub) -> Column:
    """Whether a row still has any of the named values."""
    return F.size(F.array_except(_texts(what), _said())) > 0


def scrub(context: PurgeRun, plan: Plan) -> None:
    """Scrub the frozen rows in one commit; rows that were scrubbed in the same way stay as they are.

    A document that is no JSON has no paths: if paths are named, the whole document is removed.

    Raises:
        RunFailedError: the task doesn't name what to remove, or there is no key for hashes.
    """
    what = plan.task.scrub
    if what is None:
        raise RunFailedError("InvalidSpec", "action Scrub needs spec.scrub, which says what is removed")
    given = _given(what)
    context.progress.step("scrub", plan.messages)
    rows = frozen_rows(context, plan)
    where = bounds(rows)
    if where is None:
        return
    todo = _due(context, rows, what)
    if what.error:
        scrub_history(context, rows)
    if what.dead_letters:
        forget_copies(context, by_id(todo.select("message_id").toArrow()["message_id"]))
    rewritten = _rewritten(context, plan, todo, what, given)
    source = todo.select("global_position").join(rewritten, "global_position", "left")
    merge = merging(context.spark, context.store, source, where)
    with settings(context.spark, MERGE), committing(context.spark, context.store, "scrub-rows", context.note()):
        merge.whenMatchedUpdate(set=_changes(plan, what, given)).execute()
    if what.payload_paths:
        delete_claim_checks(context, _replaced(context, rows))
        _say_what_left_whole(context, what, rows)
    context.progress.advance(plan.messages)


def scrubbed(document: Column, what: Scrub, given: str, kind: str, applied: Column) -> Column:
    """A document without the named values that it still has, all other bytes unchanged; null if nothing can stay.

    Args:
        document: JSON, as bytes.
        given: what the method needs beside the value.
        kind: payload, metadata or result, as in column ``scrubs``.
        applied: the row's texts of earlier scrubs.
    """
    paths = _left(what, kind, _names_of(what)[kind], applied)
    new = F.call_function("messagestore.scrub_json", document, paths, F.lit(what.method), F.lit(given))
    return F.when(F.size(paths) == 0, document).otherwise(new)


def scrubbed_headers(headers: Column, what: Scrub, given: str, applied: Column) -> Column:
    """Headers without the named ones that they still have."""
    names = _left(what, "header", _names_of(what)["header"], applied)

    def named(name: Column) -> Column:
        return F.array_contains(names, F.lower(name))

    if what.method == "Drop":
        return F.map_filter(headers, lambda name, _: ~named(name))
    return F.transform_values(
        headers,
        lambda name, value: F.when(named(name) & value.isNotNull(), _masked(value, what, given)).otherwise(value),
    )


def scrubbed_record(record: Column, what: Scrub, given: str, applied: Column) -> Column:
    """A record as it came without its key, a value of its own, and the named headers that it still has."""
    names = _left(what, "header", _names_of(what)["header"], applied)

    def named(header: Column) -> Column:
        return F.array_contains(names, F.lower(header["name"]))

    def masked(header: Column) -> Column:
        value = header["value"]
        return F.struct(
            header["name"].alias("name"),
            F.when(named(header), _masked(value, what, given).cast("binary")).otherwise(value).alias("value"),
        )

    headers = F.filter(record["headers"], lambda header: ~named(header))
    if what.method != "Drop":
        headers = F.transform(record["headers"], masked)
    new = F.struct(
        F.lit(None).cast("binary").alias("key"),
        F.lit(None).cast("binary").alias("value"),
        record["value_is_payload"].alias("value_is_payload"),
        headers.alias("headers"),
        *(record[name].alias(name) for name in ("timestamp", "timestamp_type")),
    )
    return F.when(record.isNotNull(), new)


def _said(prefix: str = "") -> Column:
    """Column ``scrubs`` of a row; empty for null."""
    return F.coalesce(F.col(f"{prefix}scrubs"), F.array().cast("array<string>"))


def _left(what: Scrub, kind: str, names: Sequence[str], applied: Column) -> Column:
    """The names of one kind that a row with texts ``applied`` still has."""
    texts = F.array(*map(F.lit, names)).cast("array<string>")
    return F.filter(texts, lambda name: ~F.array_contains(applied, F.concat(F.lit(_text(what, kind, "")), name)))


def _names_of(what: Scrub) -> dict[str, tuple[str, ...]]:
    """The names in a scrub by kind. Headers are in lower case, as a sender's spelling must not save one."""
    return {
        "payload": what.payload_paths,
        "metadata": what.metadata_paths,
        "result": what.result_paths,
        "header": tuple(name.lower() for name in what.headers),
        "error": ("",) if what.error else (),
        "dead letters": ("",) if what.dead_letters else (),
    }


def _texts(what: Scrub) -> Column:
    texts = [_text(what, kind, name) for kind, names in _names_of(what).items() for name in names]
    return F.array(*map(F.lit, texts)).cast("array<string>")


def _text(what: Scrub, kind: str, name: str) -> str:
    return f"{what.method} {kind} {name}"


def _due(context: PurgeRun, rows: DataFrame, what: Scrub) -> DataFrame:
    """The frozen rows that are still to be scrubbed, as the table has them."""
    due = messages_of(context, rows).where(is_due(what))
    return due.select("global_position", "message_id", "payload_size", "payload_uri", "scrubs")


def _replaced(context: PurgeRun, rows: DataFrame) -> DataFrame:
    """The frozen rows whose payload has another object by now, or none."""
    now = within(read_messages(context.spark, context.store), rows).select("global_position", "payload_uri")
    return rows.join(now, ["global_position", "payload_uri"], "left_anti")


def _given(what: Scrub) -> str:
    """What a method needs beside the value: the replacing text, or the variable with the key."""
    return held(what.key_environment, "method Hash") if what.method == "Hash" else REDACTED


def _rewritten(context: PurgeRun, plan: Plan, rows: DataFrame, what: Scrub, given: str) -> DataFrame:
    with_paths = rows if what.payload_paths else rows.limit(0)

    def scrub(payload: Column) -> Column:
        return scrubbed(payload, what, given, "payload", _said())

    return rewrite_claim_checks(context, plan, with_paths, scrub)


def _masked(text: Column, what: Scrub, given: str) -> Column:
    """The replacement of a text; null for null."""
    if what.method == "Drop":
        return F.lit(None).cast("string")
    if what.method == "Hash":
        return F.call_function("messagestore.hmac_sha256", text.cast("binary"), F.lit(given))
    return F.when(text.isNotNull(), F.lit(given))


def _changes(plan: Plan, what: Scrub, given: str) -> dict[str, str | Column]:
    applied = _said("m.")
    scrubs = F.array_union(applied, _texts(what))
    changes: dict[str, str | Column] = {"scrubbed_at": instant(plan.decided_at), "scrubs": scrubs}
    if what.headers:
        changes["headers"] = scrubbed_headers(F.col("m.headers"), what, given, applied)
    changes["record"] = scrubbed_record(F.col("m.record"), what, given, applied)
    if what.metadata_paths:
        metadata = F.col("m.metadata").cast("binary")
        changes["metadata"] = scrubbed(metadata, what, given, "metadata", applied).cast("string")
    if what.result_paths:
        changes["result"] = scrubbed(F.col("m.result"), what, given, "result", applied)
    if what.error:
        again = F.size(_left(what, "error", ("",), applied)) == 0
        changes["error"] = F.when(again, F.col("m.error")).otherwise(_masked(F.col("m.error"), what, given))
    if what.payload_paths:
        payload = scrubbed(F.col("m.payload"), what, given, "payload", applied)
        has_claim_check = F.col("m.payload_uri").isNotNull()
        changes["payload"] = payload
        changes["payload_size"] = F.when(has_claim_check, F.col("now.new_size")).otherwise(F.length(payload))
        changes["payload_sha256"] = F.when(has_claim_check, F.col("now.new_sha256")).otherwise(F.sha2(payload, 256))
        changes["payload_uri"] = F.col("now.new_uri")
    if plan.task.integrity is not None:
        changes["hmac"] = _sealed_anew(plan.task.integrity, changes)
    return changes


def _sealed_anew(integrity: Integrity, changes: dict[str, str | Column]) -> Column:
    """The seal of the scrubbed row; a row that did not match its seal keeps it, and stays broken."""
    before = own_columns("m.")
    news = {name: column for name, column in changes.items() if name in before and isinstance(column, Column)}
    was_whole = matches(keys_of(integrity), F.col("m.hmac"), before)
    return F.when(was_whole, seal(key_of(integrity), {**before, **news})).otherwise(F.col("m.hmac"))


def _say_what_left_whole(context: PurgeRun, what: Scrub, rows: DataFrame) -> None:
    if "$" in what.payload_paths:
        return
    left = messages_of(context, rows.where("payload_size is not null")).where("payload_size is null").count()
    if left:
        context.progress.say(f"{left} payloads are no JSON: the scrub removed them whole")
