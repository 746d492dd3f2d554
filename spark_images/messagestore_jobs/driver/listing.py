"""Lists the messages that a purge or a replay would take, instead of carrying it out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from messagestore_core.clock import from_microseconds
from messagestore_core.contract.base import RunError
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.progress import ProgressListener
from messagestore_core.store.folder import check_folder
from messagestore_jobs.driver.failures import error_of, is_panic

# What imports Spark is imported in the functions that run once Spark has started.
if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from messagestore_jobs.context import Run

Row = dict[str, Any]
_MESSAGE = ("global_position", "message_id", "stream_name", "position", "type", "time", "status")
_DEAD_LETTER = ("failed_at", "reason", "detail", "source", "message_id", "stream_name")
_CONTENT = ("payload", "raw")
_TIMES = ("time", "failed_at")


@dataclass
class Listed:
    """What a run would take: counts by their names, and the first of the messages.

    Messages are rows of ``messages``, or of ``dead_letters``, without most columns; those that a purge takes have
    ``rules``, those of one of several destinations ``destination``.
    """

    counts: dict[str, int] = field(default_factory=dict)
    messages: list[Row] = field(default_factory=list)
    error: RunError | None = None


@dataclass(frozen=True)
class Wanted:
    """How many messages to list, whether with their content, and what else is called with each of all of them."""

    limit: int
    content: bool = False
    each: Callable[[Row], None] | None = None


def list_messages(
    document: RunDocument, spark: "SparkSession", progress: ProgressListener, wanted: Wanted, scratch: str
) -> Listed:
    """List what the run of a purge or a replay would take; a failure becomes part of the result.

    Args:
        document: of a copy of the store, as a subscription's cursor is written.
        scratch: the URI of a folder that nobody else uses.
    """
    from messagestore_jobs.context import Run
    from messagestore_jobs.session import using

    listed = Listed()
    try:
        with using(document.storage, spark) as storage:
            run = Run.of(document, spark, progress, storage)
            check_folder(run.store)
            if isinstance(document.task, PurgeTask):
                _of_purge(run, wanted, listed)
            else:
                _of_replay(run, wanted, scratch, listed)
    except BaseException as failure:
        if not isinstance(failure, Exception) and not is_panic(failure):
            raise
        listed.error = error_of(failure, document)
    return listed


def _of_purge(run: "Run", wanted: Wanted, listed: Listed) -> None:
    from messagestore_jobs.purge.selection import listing

    listed.counts |= {"selected": 0, "held": 0, "undecided": 0}
    with listing(run) as removal:
        if removal is not None:
            preview, rows = removal
            listed.counts |= {"selected": preview.messages, "held": preview.held, "undecided": preview.undecided}
            listed.counts |= {f"rule {name}": number for name, number in preview.by_rule.items()}
            _take(rows, wanted, listed, {})


def _of_replay(run: "Run", wanted: Wanted, scratch: str, listed: Listed) -> None:
    from messagestore_jobs.replay.job import listings

    listed.counts["selected"] = 0
    for destination, rows in listings(run, scratch):
        number = rows.count()
        listed.counts["selected"] += number
        if destination:
            listed.counts[f"destination {destination}"] = number
        _take(rows, wanted, listed, {"destination": destination} if destination else {})


def _take(rows: "DataFrame", wanted: Wanted, listed: Listed, more: Mapping[str, str]) -> None:
    """Add the first rows to what is listed, and call ``each`` with all of them."""
    own = _DEAD_LETTER if "reason" in rows.columns else _MESSAGE
    columns = [*own, "rules", *(_CONTENT if wanted.content else ())]
    narrow = rows.select(*(_plain(name) for name in columns if name in rows.columns))
    left = wanted.limit - len(listed.messages)
    if wanted.each is None:
        listed.messages += _rows(narrow.limit(left), more)
        return
    every = _rows(narrow, more)
    for row in islice(every, left):
        listed.messages.append(row)
        wanted.each(row)
    for row in every:
        wanted.each(row)


def _plain(name: str) -> "Column":
    """A column; a time in microseconds, as Spark's rows have times of this machine's zone."""
    from pyspark.sql import functions as F

    return F.unix_micros(name).alias(name) if name in _TIMES else F.col(name)


def _rows(rows: "DataFrame", more: Mapping[str, str]) -> Iterator[Row]:
    for row in rows.toLocalIterator():
        yield {**{name: _value(name, value) for name, value in row.asDict(recursive=True).items()}, **more}


def _value(name: str, value: Any) -> Any:
    if value is not None and name in _TIMES:
        return from_microseconds(value)
    return bytes(value) if isinstance(value, bytearray) else value
