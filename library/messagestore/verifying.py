"""Check a whole store: whether its tables belong together, and what it holds is what was stored.

Nothing is written. Each check says how much it looked at, so that one that looked at nothing is not taken for a result.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from messagestore.errors import StorageError
from messagestore.id_index import differences
from messagestore.integrity import sealed_rows, sound_rows
from messagestore.location import Location, refusals
from messagestore.reads import Read
from messagestore.snapshot import Snapshot
from messagestore.sql import TABLE
from messagestore.versions import Versions
from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.id_index import IndexManifest, read_manifest
from messagestore_core.store.keyed import stream_key
from messagestore_core.store.layout import INDEX
from messagestore_core.store.objects import Objects
from messagestore_core.store.schemas import HEADS

MOST = 100
"""So many problems of each check are told; all are counted."""


@dataclass(frozen=True)
class Check:
    """What a check found.

    Attributes:
        name: of the check.
        examined: how many things it looked at, such as ``1,024 messages``.
        problems: the first ones, for people.
        count: how many problems there are.
        note: what it can't tell, or why it was not made; None for nothing.
    """

    name: str
    examined: str
    problems: tuple[str, ...] = ()
    count: int = 0
    note: str | None = None


def verify(
    uri: str, storage: Sequence[StorageEntry] | None = None, seal_keys: Sequence[str] = (), *, payloads: bool = True
) -> Iterator[Check]:
    """Check a store, one check after the other.

    Args:
        storage: how buckets are reached; absent: by the variables of AWS' tools.
        seal_keys: the keys of the messages' seals; absent: they are not checked.
        payloads: whether all payloads are read, and compared with their digests.

    Raises:
        MessageStoreError: the store can't be read.
    """
    location = Location(uri, storage)
    try:
        yield _tables(location)
        # Runs may commit meanwhile: all checks read one version.
        versions = Versions(location, Versions(location).table().version())
        held = int(versions.snapshot().query(f"select count(*) as n from {TABLE}")["n"][0].as_py())
        yield _totals(versions, held)
        yield _positions(location, versions, held)
        yield _ids(versions)
        yield _payloads(location, versions) if payloads else Check("payloads", "", note="not asked for")
        yield _seals(versions, seal_keys) if seal_keys else Check("seals", "", note="no key was given")
        yield _index(location, versions)
    finally:
        location.close()


class _Problems:
    """The first problems of a check, and how many there are."""

    def __init__(self, problems: Iterable[object] = ()) -> None:
        self._first, self._count = list[str](), 0
        for problem in problems:
            self.add(problem)

    def add(self, problem: object) -> None:
        self._count += 1
        if self._count <= MOST:
            self._first.append(str(problem))

    def of(self, name: str, examined: str, note: str | None = None) -> Check:
        """The check that found them."""
        return Check(name, examined, tuple(self._first), self._count, note)


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"


def _tables(location: Location) -> Check:
    """Law 6. Another run may write one table between the looks at two, so what is wrong has to be so twice."""
    wrong = location.wrong_tables()
    again = location.wrong_tables() if wrong else []
    return _Problems(words for words in again if words in wrong).of("tables", "the logs and notes of all tables")


def _totals(versions: Versions, held: int) -> Check:
    """Law 1."""
    _, totals = versions.totals()
    parts = (totals.stored, totals.duplicates, totals.dead_lettered, totals.filtered, totals.discarded)
    problems = []
    if totals.received != sum(parts):
        names = "stored, duplicates, dead-lettered, filtered and discarded"
        problems.append(f"{totals.received:,} records were received, and {names} ones are {sum(parts):,}")
    if held > totals.stored:
        problems.append(f"{_messages(held)} are in the table, and {totals.stored:,} were stored")
    return _Problems(problems).of("totals", f"{totals.received:,} records")


_STEPS = f"""
select stream_name, position, before, global_position, global_before from (
  select stream_name, position, global_position,
    lag(position) over (partition by stream_name order by position, global_position) as before,
    lag(global_position) over (partition by stream_name order by position, global_position) as global_before
  from {TABLE})
where position <> coalesce(before, -1) + 1 or global_position <= global_before
"""
_TWICE = f"select global_position from {TABLE} group by global_position having count(*) > 1"


def _positions(location: Location, versions: Versions, held: int) -> Check:
    """Law 2."""
    return _Problems(_wrong_positions(location, versions)).of("positions", _messages(held))


def _wrong_positions(location: Location, versions: Versions) -> Iterator[str]:
    snapshot, purged = versions.snapshot(), None
    for batch in snapshot.batches(_TWICE):
        yield from (f"global position {position} was given twice" for position in batch[0].to_pylist())
    for batch in snapshot.batches(_STEPS):
        purged = purged or _purged_below(location, versions)
        for step in batch.to_pylist():
            yield from _problems_of(step["stream_name"], step, purged)


def _problems_of(stream: str, step: dict[str, Any], purged: Callable[[str], int]) -> Iterator[str]:
    position, before = step["position"], step["before"]
    first = 0 if before is None else before + 1
    if position == before:
        yield f"position {position} of stream {stream} was given twice"
    # Only a purge leaves a hole, and it notes the stream's next position before.
    elif position > first and position > purged(stream):
        yield f"stream {stream} has no positions {first} to {position - 1}, and no purge noted that it took them"
    if step["global_before"] is not None and step["global_position"] <= step["global_before"]:
        yield f"position {position} of stream {stream} has a smaller global position than the one before it"


def _purged_below(location: Location, versions: Versions) -> Callable[[str], int]:
    """The next position of a stream when a purge last took messages from it; 0 without one."""
    heads = versions.other("heads", HEADS).parts((), columns=("stream_name", "stream_key", "next_position"))
    named: dict[str, int] = {}
    keyed: dict[str, int] = {}
    for row in (row for part in heads for row in part.to_pylist()):
        names, name = (named, row["stream_name"]) if row["stream_name"] is not None else (keyed, row["stream_key"])
        if name is not None:
            names[name] = max(row["next_position"] or 0, names.get(name, 0))
    key = location.tombstone_key() if keyed else None

    def below(stream: str) -> int:
        return max(named.get(stream, 0), keyed.get(stream_key(key, stream), 0) if key else 0)

    return below


def _ids(versions: Versions) -> Check:
    ids = f"select message_id, count(*) as n from {TABLE} group by message_id"
    counts = "count(message_id) as ids, count(*) - count(message_id) as without, coalesce(sum(n - 1), 0) as more"
    (tally,) = versions.snapshot().query(f"select {counts} from ({ids})").to_pylist()
    note = f"{_messages(tally['more'])} repeat an id, as a window of deduplication allows" if tally["more"] else None
    return _Problems(["a message has no id"] * bool(tally["without"])).of("ids", f"{tally['ids']:,} ids", note)


def _payloads(location: Location, versions: Versions) -> Check:
    found, total = _Problems(), 0
    for page in versions.snapshot().pages(Read()):
        total += page.num_rows
        for _ in sound_rows(location, page, found.add):
            pass
    return found.of("payloads", _messages(total))


def _seals(versions: Versions, keys: Sequence[str]) -> Check:
    found, total, unsealed = _Problems(), 0, 0
    for page in versions.snapshot().pages(Read(payloads=False)):
        sealed = page.filter(pc.is_valid(page["hmac"]))
        total, unsealed = total + page.num_rows, unsealed + page.num_rows - sealed.num_rows
        sealed_rows(sealed, keys, found.add)
    note = f"{_messages(unsealed)} have no seal" if unsealed else None
    return found.of("seals", _messages(total), note)


def _index(location: Location, versions: Versions) -> Check:
    """The index against the version of the table that it covers."""
    with refusals(location.uri):
        objects = location.objects(INDEX)
        manifest = read_manifest(objects)
        if manifest is None or manifest.table != versions.table_id or manifest.version < 0:
            return Check("index", "", note="there is none; the next run makes it")
        try:
            table = location.open_table("messages", manifest.version)
        except StorageError:
            return Check("index", "", note=f"the log no longer has version {manifest.version}, which it covers")
        rows = Snapshot(location.uri, table).rows((), columns=("message_id", "inserted_at"))
        return _Problems(_differences(objects, manifest, rows)).of("index", _messages(rows.num_rows))


def _differences(objects: Objects, manifest: IndexManifest, rows: pa.Table) -> Iterator[str]:
    advice = "remove _index/ while no run is in progress; the next one makes it anew"
    try:
        lacking, surplus = differences(objects, manifest, rows)
    except OSError as error:
        yield f"{error}; {advice}"
        return
    if lacking:
        yield f"{_messages(lacking)} of version {manifest.version} are not in it; {advice}"
    if surplus:
        yield f"{surplus:,} entries have no message in version {manifest.version}; {advice}"
