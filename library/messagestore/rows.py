"""The rows that a reader gives: with their payloads checked, and translated to the current envelope version."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from messagestore import sql
from messagestore.integrity import OnBroken, sealed_rows, sound_rows
from messagestore.location import Location
from messagestore.reads import Read
from messagestore.snapshot import Snapshot
from messagestore.versions import Versions
from messagestore_core.versions import translate_table

_CAUSES = 1000
"""Of how many messages the effects are looked for at once."""


class _Noted:
    """Pages, how many rows they have had, and the key of the last one."""

    def __init__(self, pages: Iterator[pa.Table], key: str) -> None:
        self._pages, self._key, self.rows, self.last = pages, key, 0, 0

    def __iter__(self) -> Iterator[pa.Table]:
        for page in self._pages:
            if page.num_rows:
                self.rows, self.last = self.rows + page.num_rows, page[self._key][-1].as_py()
            yield page


class Rows:
    """The rows that a reader gives, checked and translated."""

    def __init__(
        self, location: Location, versions: Versions, on_broken: OnBroken | None, seal_keys: Sequence[str]
    ) -> None:
        self.location, self.versions, self._on_broken, self._seal_keys = location, versions, on_broken, seal_keys

    def parts(self, read: Read) -> Iterator[pa.Table]:
        """The rows of a read in its order, a bounded part at a time; broken ones that are left out don't count."""
        return self._filled(self.versions.snapshot(), read)

    def _filled(self, snapshot: Snapshot, read: Read) -> Iterator[pa.Table]:
        while True:
            pages, given = _Noted(snapshot.pages(read), read.key), 0
            for rows in self._checked(pages, payloads=read.payloads):
                given += rows.num_rows
                yield rows
            if read.limit is None or pages.rows < read.limit or given == pages.rows:
                return
            read = read.behind(pages.last, read.limit - given)

    def newest(self, read: Read, count: int | None) -> Iterator[pa.Table]:
        """The last ``count`` rows of a read, in its order; None: all. Broken ones that are left out don't count."""
        if count is None:
            return self.parts(read)
        parts = [*self.parts(replace(read, newest_first=True, limit=count))]
        return (part.sort_by(read.key) for part in reversed(parts))

    def by_number(self, where: Sequence[str], limit: int | None) -> Iterator[pa.Table]:
        """Members of a sequence, by number; broken ones that are left out don't count."""
        return self._members(self.versions.snapshot(), where, limit)

    def _members(self, snapshot: Snapshot, where: Sequence[str], limit: int | None) -> Iterator[pa.Table]:
        order, behind = ("sequence_number", "global_position"), ""
        while True:
            new, given = snapshot.rows((*where, behind) if behind else where, order, limit), 0
            for rows in self._checked([new]):
                given += rows.num_rows
                yield rows
            if limit is None or new.num_rows < limit or given == limit:
                return
            number, position = (new[name][-1].as_py() for name in order)
            behind = f"(sequence_number > {number} or sequence_number = {number} and global_position > {position})"
            limit -= given

    def with_id(self, message_id: str) -> Iterator[pa.Table]:
        """The row with an id that came first; none without one."""
        return self._checked([self.versions.with_id(message_id, first=True).sort_by("global_position")[:1]])

    def caused_by(self, message_id: str, *, payloads: bool) -> Iterator[pa.Table]:
        """The rows of messages that have a message among their causes, those with fewer causes between first."""
        snapshot, known, causes = self.versions.snapshot(), {message_id}, [message_id]
        while causes:
            some, causes = causes[:_CAUSES], causes[_CAUSES:]
            read = Read(where=(sql.one_of("causation_id", some),), payloads=payloads)
            for rows in self._checked(snapshot.pages(read), payloads=payloads):
                rows = rows.filter(pc.not_equal(rows["message_id"], message_id))
                new = [one for one in dict.fromkeys(rows["message_id"].to_pylist()) if one not in known]
                known.update(new)
                causes += new
                yield rows

    def _checked(self, pages: Iterable[pa.Table], *, payloads: bool = True) -> Iterator[pa.Table]:
        translators = self.versions.translators()
        for page in pages:
            if self._seal_keys:
                page = sealed_rows(page, self._seal_keys, self._on_broken)
            for rows in sound_rows(self.location, page, self._on_broken) if payloads else [page]:
                yield translate_table(rows, translators)
