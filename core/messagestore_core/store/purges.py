"""The plan of a purge, and the rows that it has frozen in the store until it is done."""

from collections.abc import Iterator
from datetime import date, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.purge import Preview, PurgeTask
from messagestore_core.contract.run_document import Resource
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.handle import Store
from messagestore_core.store.layout import PLAN, PURGES, is_frozen_rows, plan_folder
from messagestore_core.store.objects import documents_in
from messagestore_core.store.schemas import table

FROZEN = table(
    "global_position bigint, stream_name string, position bigint, status string, inserted_date date, "
    "payload_size bigint, payload_uri string, erase boolean"
).append(pa.field("rules", pa.list_(pa.field("element", pa.string()))))
"""The columns of frozen rows. ``rules`` has the names of those that select a message; of whole days it is null."""


class Plan(ContractModel):
    """A decided purge: its task, and the rows that leave, with their counts."""

    preview: Preview
    run: str
    resource: Resource
    task: PurgeTask
    spec: str
    holds: str
    waiting: bool
    decided_at: datetime
    """When it was frozen or, if it waited, approved."""
    rows: int = 1
    """The number of the current rows; they are written again if some must stay after all. 0: there are none."""
    days: tuple[date, ...] = ()
    """Days that leave whole, as of ``version_before``; the rows are of other days."""
    last_position: int | None = None
    """The store's last global position at ``version_before``; plans of earlier releases lack it."""
    removed: int = 0
    """How many messages of whole days are removed and not among the rows; they count as messages of the plan."""
    removed_bytes: int = 0
    remembered: bool = False
    """Whether the ids of its messages are remembered."""
    claims: int = 0
    """Plans of earlier releases have it; it is not used."""
    messages: int
    bytes: int
    erased: int
    version_before: int
    dead_letters: int = 0
    dead_letters_before: datetime | None = None

    @property
    def folder(self) -> str:
        """The plan's folder, relative to the table folder."""
        return plan_folder(self.preview.id)

    @property
    def rows_folder(self) -> str:
        """The folder of the current rows, relative to the table folder."""
        return f"{self.folder}/rows-{self.rows}"


def find_plans(store: Store) -> list[Plan]:
    """All plans of a store.

    Raises:
        TableRefusedError: one is invalid, or is in another folder than its own.
    """
    plans = list(documents_in(store.objects(), PURGES, PLAN, Plan))
    for folder, plan in plans:
        if f"{plan.folder}/" != folder:
            raise TableRefusedError(
                f"{store.path(folder)}{PLAN} is not the plan of a purge that is kept there; remove it"
            )
    return [plan for _, plan in plans]


def frozen_page(store: Store, plan: Plan, rule: str | None, position: int, limit: int) -> pa.Table:
    """The first rows of a plan from a global position on, in order: columns FROZEN; without those of whole days.

    Args:
        rule: only messages that this rule selects.
        limit: how many at most; no more are held in memory than that and one part of a file.
    """
    page = FROZEN.empty_table()
    for batch in _rows(store, plan, position):
        rows = pa.table(batch)
        if rule is not None:
            rows = rows.filter(pa.array([rule in (names or ()) for names in rows["rules"].to_pylist()], pa.bool_()))
        page = pa.concat_tables([page, rows]).sort_by("global_position")[:limit]
    return page


def _rows(store: Store, plan: Plan, position: int) -> Iterator[pa.RecordBatch]:
    objects = store.objects()
    names = [name for name in objects.names(plan.rows_folder) if is_frozen_rows(name)]
    if names:
        filesystem, _ = objects.locate("")
        paths = [objects.locate(name)[1] for name in names]
        rows = ds.dataset(paths, schema=FROZEN, format="parquet", filesystem=filesystem)
        yield from rows.to_batches(filter=pc.field("global_position") >= position)
