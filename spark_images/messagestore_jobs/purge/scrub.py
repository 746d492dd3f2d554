"""Scrubbing: the row stays, and what is named leaves its payload and headers."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from messagestore_jobs.contract.run_document import Integrity, Scrub
from messagestore_jobs.integrity.columns import own_columns, seal
from messagestore_jobs.integrity.key import held, key_of
from messagestore_jobs.purge.bounds import bounds, within
from messagestore_jobs.purge.claims import delete_claim_checks, rewrite_claim_checks
from messagestore_jobs.purge.context import Context
from messagestore_jobs.purge.plan import Plan, frozen_rows
from messagestore_jobs.purge.remove import MERGE
from messagestore_jobs.session import settings
from messagestore_jobs.store.errors import RunFailedError
from messagestore_jobs.store.messages import committing, messages_table, read_messages

REDACTED = "[redacted]"
"""What stands where a value was, by method Redact."""


def scrub(context: Context, plan: Plan) -> None:
    """Scrub the frozen rows in one commit; those that are scrubbed already are passed over.

    A payload that is no JSON can't be searched for paths: where paths are named, all of it leaves.

    Raises:
        RunFailedError: the task does not say what to remove, or the key to hash with is not there.
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
    source = rows.select("global_position").join(_rewritten(context, plan, what, given), "global_position", "left")
    same = (F.col("m.global_position") == F.col("leaving.global_position")) & F.col("m.scrubbed_at").isNull()
    table = messages_table(context.spark, context.uri).alias("m")
    merge = table.merge(source.alias("leaving"), where.condition("m") & same)
    with settings(context.spark, MERGE), committing(context.spark, "scrub-rows", context.note()):
        merge.whenMatchedUpdate(set=_changes(plan, what, given)).execute()
    if what.payload_paths:
        delete_claim_checks(context, rows)
        _say_what_left_whole(context, what, rows)
    context.progress.advance(plan.messages)


def _given(what: Scrub) -> str:
    """What a method needs beside the value: the text that stands for it, or the variable that holds the key."""
    return held(what.key_environment, "method Hash") if what.method == "Hash" else REDACTED


def _rewritten(context: Context, plan: Plan, what: Scrub, given: str) -> DataFrame:
    rows = frozen_rows(context, plan) if what.payload_paths else frozen_rows(context, plan).limit(0)
    return rewrite_claim_checks(context, rows, plan.preview.id, lambda value: scrubbed(value, what, given))


def scrubbed(payload: Column, what: Scrub, given: str) -> Column:
    """A payload without what is named, its other bytes as they were; null where nothing of it can stay."""
    paths = F.array(*(F.lit(path) for path in what.payload_paths))
    return F.call_function("messagestore.scrub_json", payload, paths, F.lit(what.method), F.lit(given))


def scrubbed_headers(headers: Column, what: Scrub, given: str) -> Column:
    """Headers without what is named. Names are compared whatever their case: a sender's spelling must not save one."""
    names = [name.lower() for name in what.headers]

    def named(name: Column) -> Column:
        return F.lower(name).isin(*names)

    if what.method == "Drop":
        return F.map_filter(headers, lambda name, _: ~named(name))

    def masked(value: Column) -> Column:
        if what.method == "Hash":
            return F.call_function("messagestore.hmac_sha256", value.cast("binary"), F.lit(given))
        return F.lit(given)

    return F.transform_values(
        headers, lambda name, value: F.when(named(name) & value.isNotNull(), masked(value)).otherwise(value)
    )


def _changes(plan: Plan, what: Scrub, given: str) -> dict[str, str | Column]:
    changes: dict[str, str | Column] = {"scrubbed_at": F.lit(plan.decided_at)}
    if what.headers:
        changes["headers"] = scrubbed_headers(F.col("m.headers"), what, given)
    if what.payload_paths:
        payload = scrubbed(F.col("m.payload"), what, given)
        claimed = F.col("m.payload_uri").isNotNull()
        changes["payload"] = payload
        changes["payload_size"] = F.when(claimed, F.col("leaving.new_size")).otherwise(F.length(payload))
        changes["payload_sha256"] = F.when(claimed, F.col("leaving.new_sha256")).otherwise(F.sha2(payload, 256))
        changes["payload_uri"] = F.col("leaving.new_uri")
    if plan.task.integrity is not None:
        changes["hmac"] = _sealed_anew(plan.task.integrity, changes)
    return changes


def _sealed_anew(integrity: Integrity, changes: dict[str, str | Column]) -> Column:
    """The seal of the scrubbed row; a row that was not as it was sealed keeps its seal, and stays broken."""
    key = key_of(integrity)
    before = own_columns("m.")
    news = {name: column for name, column in changes.items() if name in before and isinstance(column, Column)}
    return F.when(F.col("m.hmac") == seal(key, before), seal(key, {**before, **news})).otherwise(F.col("m.hmac"))


def _say_what_left_whole(context: Context, what: Scrub, rows: DataFrame) -> None:
    if "$" in what.payload_paths:
        return
    had = rows.where("payload_size is not null").select("global_position")
    messages = within(read_messages(context.spark, context.uri), rows).where("payload_size is null")
    left = messages.select("global_position").join(had, "global_position", "left_semi").count()
    if left:
        context.progress.say(f"{left} payloads were no JSON, so that no path could be found in them; they left whole")
