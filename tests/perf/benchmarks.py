"""The benchmarks: each one's sides, how a side runs in a fresh process, and the required ratios."""

import shutil
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.perf import changing_sides, compare, data, ingest_sides, reading_sides, topic_sides
from tests.perf.plain import plain_session

from messagestore_jobs.session import local_session

Figures = dict[str, Any]


@dataclass(frozen=True)
class Ratio:
    """``numerator`` seconds over ``denominator`` seconds, and the requirement in words."""

    name: str
    numerator: str
    denominator: str
    asked: str


@dataclass(frozen=True)
class Benchmark:
    """Sides that run in turn, each in its own process, and the ratios of their medians."""

    run: Callable[[str, Figures], Figures]
    sides: dict[str, tuple[str, Figures]]
    ratios: tuple[Ratio, ...]
    repeats: int = 5
    check: Callable[[dict[str, Figures]], str] = field(default=lambda _: "")


def _session(**settings: str) -> SparkSession:
    return local_session(cores=2, memory="6g", settings=settings)


_SESSIONS: dict[str, Callable[[], SparkSession | None]] = {
    "store": _session,
    "append": plain_session,
    "script": lambda: None,
}


def _ingest(side: str, arguments: Figures) -> Figures:
    """Warm up on a small store, also with a batch of the measured size, then ingest the measured batches."""
    spark = _SESSIONS[side]()
    held, size, batches = arguments["base"], arguments["batch"], arguments["batches"]
    work = Path(tempfile.mkdtemp(prefix="messagestore-perf-", dir=data.folder()))
    small = data.copy(data.base(_session, 100_000), work / "warm")
    store = data.copy(data.base(_session, held), work / "store")
    run = ingest_sides.SIDES[side]
    warm = [data.records(100_000, 50_000_000 + i * 100_000, 90 + i) for i in range(3)]
    run(spark, small, [*warm, data.records(size, 60_000_000, 80)])
    files = [data.records(size, 100_000_000 + i * size, i) for i in range(batches)]
    timed = run(spark, store, files)
    digest = compare.digest(store) if side != "append" else None
    shutil.rmtree(work)
    return {"seconds": statistics.median(timed.batches), "opening": timed.opening, "digest": digest}


def _same_store(figures: dict[str, Figures]) -> str:
    digests = {name: f["digest"] for name, f in figures.items() if f.get("digest")}
    if len(set(map(str, digests.values()))) != 1:
        raise AssertionError(f"the sides did not store the same: {digests}")
    return f"same rows, positions and dead letters on {' and '.join(digests)}"


def _ingest_benchmark(base: int, batch: int, batches: int, least: tuple[float, float]) -> Benchmark:
    arguments = {"base": base, "batch": batch, "batches": batches}
    return Benchmark(
        run=_ingest,
        sides={side: (side, arguments) for side in ("store", "append", "script")},
        ratios=(
            Ratio("speed against Spark's plain append", "append", "store", f"at least {least[0]}"),
            Ratio("speed against DuckDB + delta-rs", "script", "store", f"at least {least[1]}"),
        ),
        check=_same_store,
    )


def _flat() -> Benchmark:
    return Benchmark(
        run=_ingest,
        sides={
            "into 10 M": ("store", {"base": 10_000_000, "batch": 100_000, "batches": 5}),
            "into 100 k": ("store", {"base": 100_000, "batch": 100_000, "batches": 5}),
        },
        ratios=(Ratio("cost of a batch, 10 M over 100 k", "into 10 M", "into 100 k", "at most 1.2"),),
    )


def _change_benchmark(side: str, days: int) -> Benchmark:
    """One side against rewriting the days that it touches."""
    return Benchmark(
        run=changing_sides.change,
        sides={side: (side, {}), "rewrite": ("rewrite", {"days": days})},
        ratios=(Ratio("over a rewrite of the touched files", side, "rewrite", "at most 2"),),
    )


BENCHMARKS: dict[str, Benchmark] = {
    "ingest-2m-into-10m": _ingest_benchmark(10_000_000, 2_000_000, 1, (0.75, 1.0)),
    "ingest-100k-into-10m": _ingest_benchmark(10_000_000, 100_000, 5, (0.5, 0.65)),
    "ingest-flat": _flat(),
    "read-stream": Benchmark(
        run=reading_sides.read,
        sides={"one stream": ("stream", {}), "full scan": ("scan", {})},
        ratios=(Ratio("one stream over a full scan", "one stream", "full scan", "at most 0.05"),),
    ),
    "read-category": Benchmark(
        run=reading_sides.category,
        sides={"reader": ("reader", {}), "one of three": ("member", {}), "filtered, then sorted": ("plain", {})},
        ratios=(Ratio("reader over a filter and a sort", "reader", "filtered, then sorted", "at most 0.5"),),
    ),
    "purge-day": Benchmark(
        run=reading_sides.purge,
        sides={"purge of a day": ("purge", {}), "rewrite": ("rewrite", {})},
        ratios=(Ratio("purge of a day over a rewrite", "purge of a day", "rewrite", "at most 0.05"),),
    ),
    "purge-remembered": Benchmark(
        run=reading_sides.purge_all,
        sides={side: (side, {}) for side in ("remembered", "forgotten", "rows")},
        ratios=(Ratio("purge of days, remembered, over row by row", "remembered", "rows", "at most 0.05"),),
    ),
    "purge-scattered": _change_benchmark("purge", data.DAYS),
    "erase-scattered": _change_benchmark("erase", data.DAYS),
    "status-updates": _change_benchmark("updates", 1),
    "replay-files": Benchmark(
        run=reading_sides.replay,
        sides={"replay": ("replay", {}), "plain": ("plain", {})},
        ratios=(Ratio("speed against Spark's sorted write", "plain", "replay", "at least 0.8"),),
        check=reading_sides.same_lines,
    ),
    "topic-restore": Benchmark(
        run=topic_sides.put_back,
        sides={
            f"{side}, {millions} M": (side, {"records": millions * 1_000_000})
            for millions in (1, 4)
            for side in ("restore", "plain")
        },
        ratios=tuple(
            Ratio(f"{millions} M against Spark's Kafka sink", f"plain, {millions} M", f"restore, {millions} M", asked)
            for millions, asked in ((1, ""), (4, "at least 0.8"))
        ),
        check=topic_sides.same_records,
    ),
}
