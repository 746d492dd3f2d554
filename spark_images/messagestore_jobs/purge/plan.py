"""A purge that is under way: what its steps need, and its plan as it is kept in the folder until it is done.

``_purges/<preview id>/`` holds the frozen rows and, written last, the plan; days that leave whole are named in it, and
their rows are those of the table's version before. A folder without a plan is what a run left that was cut short before
anything was decided; a folder with one is a purge to carry on, or one that waits for approval.
"""

from dataclasses import dataclass
from datetime import date, datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.run_document import PurgeTask, Resource
from messagestore_core.contract.run_report import Preview
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.external import external_write
from messagestore_core.store.handle import Store
from messagestore_core.store.objects import read_document
from messagestore_jobs.context import Run
from messagestore_jobs.rows.messages import read_messages

FOLDER = "_purges"
_PLAN = "plan.json"
FROZEN = (
    "global_position",
    "stream_name",
    "position",
    "status",
    "inserted_date",
    "payload_size",
    "payload_uri",
    "erase",
)

_FROZEN_TYPES = (
    "global_position bigint, stream_name string, position bigint, status string, inserted_date date, "
    "payload_size bigint, payload_uri string, erase boolean"
)


@dataclass(frozen=True)
class PurgeRun(Run):
    """A purge, by its rules."""

    task: PurgeTask


def purge_run(run: Run) -> PurgeRun:
    """The context of a purge.

    Raises:
        TypeError: the document is for another kind of run.
    """
    task = run.document.task
    if not isinstance(task, PurgeTask):
        raise TypeError(f"run {run.run} is no purge but {task.kind}")
    return PurgeRun(run.document, run.store, run.spark, run.progress, run.as_of, task)


class Plan(ContractModel):
    """What was decided. ``task`` is the task it was decided by; the rows are those that leave, and their counts."""

    preview: Preview
    run: str
    resource: Resource
    task: PurgeTask
    spec: str
    holds: str
    waiting: bool
    decided_at: datetime
    """When it was frozen or, where it waited, approved."""
    rows: int = 1
    """Which writing of the rows is in force: they are written again when some of them stay after all. 0: none."""
    days: tuple[date, ...] = ()
    """What leaves whole, as it was at ``version_before``; the rows are of other days."""
    claims: int = 0
    """Told by plans of earlier releases."""
    messages: int
    bytes: int
    erased: int
    version_before: int
    dead_letters: int = 0
    dead_letters_before: datetime | None = None

    @property
    def folder(self) -> str:
        """Its folder, relative to the table folder."""
        return f"{FOLDER}/{self.preview.id}"

    @property
    def rows_folder(self) -> str:
        """Where the rows in force are."""
        return f"{self.folder}/rows-{self.rows}"


def find_plans(store: Store) -> list[Plan]:
    """All plans in the folder.

    Raises:
        TableRefusedError: one is none, or names another folder than its own.
    """
    objects = store.objects()
    folders = [name.rstrip("/") for name in objects.names(FOLDER) if name.endswith("/")]
    plans = [(folder, read_document(objects, f"{folder}/{_PLAN}", Plan)) for folder in folders]
    for folder, plan in plans:
        if plan is not None and plan.folder != folder:
            raise TableRefusedError(
                f"{store.path(folder, _PLAN)} is not the plan of a purge that is kept there; remove it"
            )
    return [plan for _, plan in plans if plan is not None]


def write_rows(context: Run, plan: Plan, rows: DataFrame) -> None:
    """Freeze rows; they are in force once the plan is written."""
    with external_write("freeze-rows"):
        rows.select(*FROZEN).write.mode("overwrite").parquet(context.store.path(plan.rows_folder))


def write_plan(context: Run, plan: Plan) -> None:
    """Decide: from here on the purge is carried on until it is done."""
    with external_write("freeze-plan"):
        context.store.objects().write(f"{plan.folder}/{_PLAN}", plan.model_dump_json(by_alias=True).encode())


def frozen_rows(context: Run, plan: Plan) -> DataFrame:
    """The rows that leave: columns FROZEN."""
    written = written_rows(context, plan)
    if not plan.days:
        return written
    return written.unionByName(_before(context, plan).where(F.col("inserted_date").isin(*plan.days)))


def written_rows(context: Run, plan: Plan) -> DataFrame:
    """Those of the rows that leave that are not of whole days: columns FROZEN.

    Of earlier versions of the table only those are kept that whole days need.
    """
    if plan.rows:
        return context.spark.read.schema(_FROZEN_TYPES).parquet(context.store.path(plan.rows_folder))
    return context.spark.createDataFrame([], _FROZEN_TYPES)


def forget(context: Run, plan: Plan) -> None:
    """Drop a plan that is done or overtaken; the plan goes first, so that no half of it is carried on."""
    objects = context.store.objects()
    with external_write("forget-plan"):
        objects.delete(f"{plan.folder}/{_PLAN}")
    with external_write("forget-rows"):
        objects.delete_folder(plan.folder)


def sweep(context: Run) -> None:
    """Remove what runs left that were cut short before they had decided, or after they were done."""
    objects = context.store.objects()
    for name in objects.names(FOLDER):
        if name.endswith("/") and not objects.exists(f"{name}{_PLAN}"):
            with external_write("sweep-plan"):
                objects.delete_folder(name.rstrip("/"))


def _before(context: Run, plan: Plan) -> DataFrame:
    messages = read_messages(context.spark, context.store, plan.version_before)
    return messages.withColumn("erase", F.lit(False)).select(*FROZEN)
