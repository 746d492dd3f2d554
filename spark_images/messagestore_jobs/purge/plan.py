"""A purge that is under way, as it is kept in the folder until it is done.

``_purges/<preview id>/`` holds the frozen rows and, written last, the plan. A folder without a plan is what a run left
that was cut short before anything was decided; a folder with one is a purge to carry on, or one that waits for
approval.
"""

from datetime import datetime

from pyspark.sql import DataFrame

from messagestore_jobs.contract.base import ContractModel
from messagestore_jobs.contract.run_document import PurgeTask, Resource
from messagestore_jobs.contract.run_report import Preview
from messagestore_jobs.purge.context import Context
from messagestore_jobs.store.external import external_write
from messagestore_jobs.store.objects import Objects, join

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
    "rules",
    "erase",
)


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
    """Which writing of the rows is in force: they are written again when some of them stay after all."""
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


def find_plans(uri: str) -> list[Plan]:
    """All plans in the folder."""
    objects = Objects(uri)
    texts = [objects.read(f"{name}{_PLAN}") for name in objects.names(FOLDER) if name.endswith("/")]
    return [Plan.model_validate_json(text) for text in texts if text is not None]


def write_rows(context: Context, plan: Plan, rows: DataFrame) -> None:
    """Freeze rows; they are in force once the plan is written."""
    with external_write("freeze-rows"):
        rows.select(*FROZEN).write.mode("overwrite").parquet(join(context.uri, plan.rows_folder))


def write_plan(context: Context, plan: Plan) -> None:
    """Decide: from here on the purge is carried on until it is done."""
    with external_write("freeze-plan"):
        Objects(context.uri).write(f"{plan.folder}/{_PLAN}", plan.model_dump_json(by_alias=True).encode())


def frozen_rows(context: Context, plan: Plan) -> DataFrame:
    """The rows that leave: columns FROZEN."""
    return context.spark.read.parquet(join(context.uri, plan.rows_folder))


def forget(context: Context, plan: Plan) -> None:
    """Drop a plan that is done or overtaken; the plan goes first, so that no half of it is carried on."""
    objects = Objects(context.uri)
    with external_write("forget-plan"):
        objects.delete(f"{plan.folder}/{_PLAN}")
    with external_write("forget-rows"):
        objects.delete_folder(plan.folder)


def sweep(context: Context) -> None:
    """Remove what runs left that were cut short before they had decided, or after they were done."""
    objects = Objects(context.uri)
    for name in objects.names(FOLDER):
        if name.endswith("/") and not objects.exists(f"{name}{_PLAN}"):
            with external_write("sweep-plan"):
                objects.delete_folder(name.rstrip("/"))
