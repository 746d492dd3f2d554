"""Begin a replay: count its messages, and cut the selection into splits."""

from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from messagestore_core.contract.replay import FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_core.store.delta_log import count_rows
from messagestore_jobs.frozen.orders import BY_POSITION
from messagestore_jobs.frozen.replays import Frozen, Key, ReplayState, Split
from messagestore_jobs.replay.source import Source

SPLITS = 1 << 16
_ROW_IN_PARTITION = (1 << 33) - 1


def freeze(source: Source, run: str, task_digest: str) -> Frozen:
    """Count the selection and find where it can be cut; reads only the columns of key, size and selectors."""
    measured = _measured(source, source.rows())
    every = _splits_by_position(source, measured) if source.order is BY_POSITION else _splits_by_rank(source, measured)
    splits, end = _limited(source, every)
    return Frozen(
        table=source.store.uri,
        task=task_digest,
        request_digest=source.task.request_digest,
        run=run,
        at=source.now,
        selection=_summary(source, splits),
        listed=source.listed,
        end=end,
        splits=tuple(splits),
    )


def freeze_order(source: Source, frozen: Frozen, state: ReplayState) -> Frozen:
    """Write the selected positions in the order of the replay, unless the splits alone show them."""
    if source.task.origin == "DeadLetters" or all(split.dense for split in frozen.splits):
        return frozen
    rows = source.between(frozen.splits[0].start, frozen.end)
    positions = rows.orderBy(*source.order.columns).select("global_position")
    with state.held.step("replay-placed"):
        positions.write.mode("overwrite").parquet(state.order_uri)
    return frozen.model_copy(update={"ordered": True})


def nothing_selected() -> FrozenSelection:
    """An empty selection."""
    return FrozenSelection(table_version=0, messages=0, bytes=0)


def nothing() -> ReplayOutcome:
    """The outcome of a replay that has nothing to send."""
    return ReplayOutcome(selection=nothing_selected(), progress=ReplayProgress(percent=100), complete=True)


def _measured(source: Source, rows: DataFrame) -> DataFrame:
    """The key columns, and those that are summed up by split."""
    if source.task.origin == "DeadLetters":
        size, claim_check, position = F.octet_length("raw"), F.lit(0), F.lit(None)
    else:
        size, claim_check = F.col("payload_size"), F.col("payload_uri").isNotNull().cast("int")
        position = F.col("global_position")
    return rows.select(
        *source.order.columns,
        F.coalesce(size.cast("bigint"), F.lit(0)).alias("size"),
        claim_check.cast("bigint").alias("claim"),
        position.cast("bigint").alias("place"),
    )


def _sums() -> list[Column]:
    return [
        F.count(F.lit(1)).alias("messages"),
        F.sum("size").alias("bytes"),
        F.sum("claim").alias("claims"),
        F.max("place").alias("last"),
        F.min("place").alias("first"),
    ]


def _splits_by_position(source: Source, measured: DataFrame) -> list[Split]:
    """Ranges of positions of equal width, counted in one pass without a sort."""
    low, high = source.bounds()
    if high - low >= SPLITS:
        ends = source.ends()
        if ends is None:
            return []
        low, high = ends
    width = max(0, high - low) // SPLITS + 1
    cell = F.floor((F.col("place") - low) / width)
    rows = measured.groupBy(cell.alias("cell")).agg(*_sums()).toArrow().sort_by("cell").to_pylist()
    return [_split((row["first"],), row) for row in rows]


def _splits_by_rank(source: Source, measured: DataFrame) -> list[Split]:
    """Ranges of equally many rows, counted along the sorted keys."""
    few = count_rows(source.store, source.table) <= SPLITS
    width = 1 if few else measured.count() // SPLITS + 1
    keys = source.order.columns
    ordered = measured.orderBy(*keys).select("*", F.monotonically_increasing_id().alias("id"))
    part, row = F.shiftright("id", 33), F.floor(F.col("id").bitwiseAND(_ROW_IN_PARTITION) / width)
    cells = ordered.groupBy(part.alias("part"), row.alias("row")).agg(*_sums(), F.min(F.struct(*keys)).alias("start"))
    in_order = sorted(cells.collect(), key=lambda cell: (cell["part"], cell["row"]))
    return [_split(tuple(cell["start"]), cell) for cell in in_order]


def _split(start: Key, row: Row | dict[str, Any]) -> Split:
    return Split(start, row["messages"], row["bytes"], row["claims"], row["first"], row["last"])


def _limited(source: Source, splits: list[Split]) -> tuple[list[Split], Key | None]:
    """The first splits up to the limit of messages, and the key where they end; None: at the end."""
    limit = source.task.select.limit
    if limit is None or sum(split.messages for split in splits) <= limit:
        return splits, None
    kept: list[Split] = []
    left = limit
    for i, split in enumerate(splits):
        if left == 0:
            return kept, split.start
        if split.messages > left:
            following = splits[i + 1].start if i + 1 < len(splits) else None
            part, end = _part_of(source, split, following, left)
            return [*kept, part], end
        kept.append(split)
        left -= split.messages
    return kept, None


def _part_of(source: Source, split: Split, following: Key | None, messages: int) -> tuple[Split, Key]:
    keys = source.order.columns
    rows = _measured(source, source.between(split.start, following)).orderBy(*keys).limit(messages + 1).collect()
    taken, end = rows[:messages], tuple(rows[messages][name] for name in keys)
    positions = [row["place"] for row in taken if row["place"] is not None]
    part = Split(
        split.start,
        messages,
        sum(row["size"] for row in taken),
        sum(row["claim"] for row in taken),
        min(positions, default=None),
        max(positions, default=None),
    )
    return part, end


def _summary(source: Source, splits: list[Split]) -> FrozenSelection:
    firsts = [split.first_global_position for split in splits if split.first_global_position is not None]
    lasts = [split.last_global_position for split in splits if split.last_global_position is not None]
    return FrozenSelection(
        table_version=source.version,
        messages=sum(split.messages for split in splits),
        bytes=sum(split.bytes for split in splits),
        first_global_position=min(firsts, default=None),
        last_global_position=max(lasts, default=None),
    )
