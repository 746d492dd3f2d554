"""How much a purge or a replay will read, by the logs of its store, before Spark starts for it."""

from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from itertools import chain
from operator import and_, ge, le

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_core.clock import now, shifted
from messagestore_core.contract.purge import MATCH_LISTS, PurgeTask
from messagestore_core.contract.replay import Interval, ReplayTask, TimeWindow
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.delta_log import FIRST_OPEN, count_rows, files_of
from messagestore_core.store.folder import exists
from messagestore_core.store.handle import Store
from messagestore_core.store.id_index import read_manifest
from messagestore_core.store.layout import INDEX
from messagestore_core.store.purges import find_plans
from messagestore_core.store.scan import may_match
from messagestore_core.store.schemas import REMEMBERED, UTC
from messagestore_core.store.statistics import complete
from messagestore_core.store.storage import Storage
from messagestore_jobs.index.changes import changes_between
from messagestore_jobs.index.manifest import usable
from messagestore_jobs.purge.rules import says_nothing
from messagestore_jobs.purge.whole_days import TIMES, whole_days

_FEW_MESSAGES = 1_000_000
_MOST_FILES = 100
"""Of more files it is not looked up whether they have claim checks, which takes some requests for each."""
_ALL = pc.scalar(True)


def bytes_to_read(document: RunDocument, storage: Storage) -> int | None:
    """The bytes of the files that may have messages or dead letters for a purge or a replay.

    None if that is not known, or there are many files, or the run has other work: an earlier purge to end, claim checks
    to read, or the index of a target stream to make. A replay that goes on may read a version of its store that had
    more.

    Raises:
        Exception: as a run does.
    """
    task, store = document.task, Store.of(document.table, storage)
    if not isinstance(task, PurgeTask | ReplayTask) or not exists(store):
        return None
    if isinstance(task, PurgeTask):
        payloads = task.archive is not None or task.action == "Scrub"
        files = may_match(store.table("messages"), _purged(store, task, now(document)))
        return None if find_plans(store) else _bytes_of(store, files, payloads=payloads)
    if task.target is not None and not _index_is_near(Store.of(task.target.table, storage)):
        return None
    payloads = task.origin == "Messages"
    files = may_match(store.table("messages" if payloads else "dead_letters"), _replayed(task))
    return _bytes_of(store, files, payloads=payloads)


def _index_is_near(store: Store) -> bool:
    """Whether the run need not first read many ids by Spark: the index lacks few changes, or there are few ids."""
    remembers = store.remember_purged is not None
    if count_rows(store, "messages") + (count_rows(store, REMEMBERED) if remembers else 0) <= _FEW_MESSAGES:
        return True
    manifest = usable(read_manifest(store.objects(INDEX)), store.table("messages"))
    if manifest is None:
        return False
    covered = {"messages": manifest.version} | ({REMEMBERED: manifest.purged_version} if remembers else {})
    changes = [changes_between(store, name, since, store.table(name).version()) for name, since in covered.items()]
    return all(one is not None and one.few for one in changes)


def _bytes_of(store: Store, files: pa.Table, *, payloads: bool) -> int | None:
    if not files.num_rows:
        return 0
    if files.num_rows > _MOST_FILES or (payloads and _have_claim_checks(store, files)):
        return None
    return int(pc.sum(files["size_bytes"]).as_py())


def _have_claim_checks(store: Store, files: pa.Table) -> bool:
    known = complete(store, "messages", files, "payload_uri")
    return pc.any(pc.less(known["null_count.payload_uri"], known["num_records"])).as_py() is True


def _purged(store: Store, task: PurgeTask, as_of: datetime) -> pc.Expression:
    """The messages that a purge must look at, at most."""
    files = complete(store, "messages", files_of(store.table("messages")), *TIMES)
    rules = [rule for rule in task.rules if not says_nothing(rule)]
    whole = whole_days(task, files, as_of)
    # To archive messages, or to remember their ids, is to read them.
    leave_unread = task.archive is None and store.remember_purged is None
    days = whole.days if leave_unread else ()
    if not rules or (leave_unread and not whole.others):
        return pc.scalar(False)
    # A cap counts all messages of a stream, and an erasure looks for others of it.
    if any(rule.max_age is None or rule.max_messages_per_stream is not None or rule.erase for rule in rules):
        return _ALL
    edge = max(shifted(as_of, -rule.max_age) for rule in rules if rule.max_age is not None)
    time, inserted_at = (pc.field(name) < _scalar(edge) for name in TIMES)
    left = ~pc.field("inserted_date").isin(list(days)) if days else _ALL
    return (time | inserted_at) & left


def _replayed(task: ReplayTask) -> pc.Expression:
    """The messages or dead letters that a replay must look at, at most."""
    select = task.select
    if task.origin == "DeadLetters":
        return reduce(and_, [*_within("failed_at", select.time_window), *_among("reason", select.reasons)], _ALL)
    if select.due_for_retry:
        # Also messages that are not selected, and hold others back.
        return pc.field("status") >= FIRST_OPEN
    of_sequences = _among("sequence_id", select.sequences.ids) if select.sequences else []
    if select.sequences is not None and select.sequences.complete_only:
        # Whether a sequence is complete depends on all of its messages.
        return reduce(and_, of_sequences, _ALL)
    lists = [_among(column, getattr(select, name, ())) for name, column in MATCH_LISTS.items()]
    bounds = (
        _within("time", select.time_window),
        _within("global_position", select.global_positions),
        _within("position", select.positions),
    )
    return reduce(and_, chain(of_sequences, *lists, *bounds), _ALL)


def _among(column: str, values: Sequence[str]) -> list[pc.Expression]:
    return [pc.field(column).isin(list(values))] if values else []


def _within(column: str, ends: TimeWindow | Interval | None) -> list[pc.Expression]:
    """Both ends are taken as included."""
    bounds = ((ge, ends.from_), (le, ends.to)) if ends is not None else ()
    return [is_beyond(pc.field(column), _scalar(end)) for is_beyond, end in bounds if end is not None]


def _scalar(value: datetime | int) -> pa.Scalar:
    return pa.scalar(value, UTC if isinstance(value, datetime) else pa.int64())
