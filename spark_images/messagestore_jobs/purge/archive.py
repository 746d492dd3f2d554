"""The archive: messages are written before they leave, counted by reading them back, and sealed by a manifest.

``<archive uri>/<preview id>/`` has the files and the manifest. Without a manifest the archive is written again. Once it
is sealed, only the manifest's files count, and nothing is read from the store again. Payloads of claim checks are
archived with their rows, as the objects are deleted too.
"""

from pydantic import AliasChoices, Field
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from messagestore_core.contract.base import ContractModel
from messagestore_core.contract.purge import Archive
from messagestore_core.contract.stores import Owner
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.folder import store_id
from messagestore_core.store.objects import Objects, join, read_document
from messagestore_core.store.purges import Plan
from messagestore_jobs.context import PurgeRun
from messagestore_jobs.frozen.purges import frozen_rows, messages_of
from messagestore_jobs.native import to_native
from messagestore_jobs.purge.claim_checks import with_payloads_inside
from messagestore_jobs.rows.messages import read_messages

MANIFEST = "_manifest.json"


class ArchivedFile(ContractModel):
    """One file, as it was read back."""

    name: str
    size: int
    messages: int


class ArchiveManifest(ContractModel):
    """The content of an archive; it is written after all files."""

    preview: str
    run: str
    table: str
    store: str | None = None
    """The store's id; earlier releases don't write it."""
    owner: Owner
    table_version: int
    format: str
    writing: int = Field(validation_alias=AliasChoices("writing", "rows"))
    """The number of the plan's rows that the archive has; earlier releases call it ``rows``."""
    messages: int
    bytes: int
    files: tuple[ArchivedFile, ...]


def archive(context: PurgeRun, plan: Plan) -> int:
    """Archive all messages that leave, without erased ones, and seal the archive; return how many it has."""
    to = plan.task.archive
    expected = plan.messages - plan.erased
    if to is None:
        return 0
    objects = Objects(join(to.uri, plan.preview.id), context.store.storage)
    sealed = read_document(objects, MANIFEST, ArchiveManifest)
    _refuse_another(context, plan, objects, sealed)
    if expected == 0:
        _withdraw(context, objects)
        return 0
    context.progress.step("archive", expected)
    if sealed is None:
        _refuse_removed(context, plan, objects.uri)
        with context.store.step("archive-clear"):
            objects.delete_folder("")
        _write(context, to, objects.uri, _leaving(context, plan, to))
        sealed = _seal(context, plan, to, objects, kept=())
    elif sealed.writing != plan.rows:
        _sweep(context, objects, sealed)
        kept = tuple(file.name for file in sealed.files)
        _write(context, to, objects.uri, _still_leaving(context, plan, to, objects.uri))
        sealed = _seal(context, plan, to, objects, kept)
    _sweep(context, objects, sealed)
    context.progress.advance(sealed.messages)
    return sealed.messages


def _refuse_removed(context: PurgeRun, plan: Plan, uri: str) -> None:
    """Refuse to archive anew what a plan has removed, before anything of the archive is deleted."""
    if plan.removed:
        raise RunFailedError(
            "ArchiveIncomplete",
            f"{uri} has no {MANIFEST} any more, and {plan.removed} of the messages that belong there have left the "
            f"store: restore the archive, or remove {context.store.path(plan.folder)} to leave the rest of the purge",
        )


def _refuse_another(context: PurgeRun, plan: Plan, objects: Objects, sealed: ArchiveManifest | None) -> None:
    """Refuse the sealed archive of another store, such as an earlier one in the same folder.

    Raises:
        RunFailedError: it is another's; nothing was touched.
    """
    if sealed is None:
        return
    own = sealed.run == plan.run if sealed.store is None else sealed.store == store_id(context.store)
    if not own:
        raise RunFailedError(
            "ArchiveTaken",
            f"{objects.uri} is the archive of another store or purge, which run {sealed.run[:100]} sealed; nothing was "
            "removed. Move it out of spec.archive.uri",
        )


def _withdraw(context: PurgeRun, objects: Objects) -> None:
    """Remove a sealed archive if all of its messages stay after all; the manifest goes first."""
    if objects.exists(MANIFEST):
        with context.store.step("archive-withdrawn"):
            objects.delete(MANIFEST)
            objects.delete_folder("")


def _leaving(context: PurgeRun, plan: Plan, to: Archive) -> DataFrame:
    rows = frozen_rows(context, plan).where("not erase")
    whole = with_payloads_inside(context, messages_of(context, rows), rows).sortWithinPartitions("global_position")
    return to_native(whole, "Base64") if to.format == "JSONLines" else whole


def _still_leaving(context: PurgeRun, plan: Plan, to: Archive, uri: str) -> DataFrame:
    """The rows that still leave, from the sealed archive; the store may not have them any more."""
    sealed = _read(context, to, uri)
    if to.format == "JSONLines":
        record = F.col("value").cast("binary")
        position = F.call_function("messagestore.json_text", record, F.lit("$.globalPosition")).cast("bigint")
        sealed = sealed.withColumn("global_position", position)
    leaving = frozen_rows(context, plan).select("global_position")
    if plan.removed:
        # Of the rows that it doesn't list, the plan has removed those that the table no longer has.
        existing = read_messages(context.spark, context.store).select("global_position")
        rows = sealed.join(existing.join(leaving, "global_position", "left_anti"), "global_position", "left_anti")
    else:
        rows = sealed.join(leaving, "global_position", "left_semi")
    return rows.select("value") if to.format == "JSONLines" else rows.select(*sealed.columns)


def _write(context: PurgeRun, to: Archive, uri: str, rows: DataFrame) -> None:
    with context.store.step("archive-files"):
        if to.format == "JSONLines":
            rows.write.mode("append").text(uri)
        else:
            rows.write.mode("append").parquet(uri)


def _read(context: PurgeRun, to: Archive, uri: str) -> DataFrame:
    if to.format == "JSONLines":
        return context.spark.read.option("lineSep", "\n").text(uri)
    return context.spark.read.parquet(uri)


def _seal(context: PurgeRun, plan: Plan, to: Archive, objects: Objects, kept: tuple[str, ...]) -> ArchiveManifest:
    files = [file for file in _files(context, to, objects.uri) if file.name not in kept]
    messages = sum(file.messages for file in files)
    if messages != plan.messages - plan.erased:
        raise RunFailedError(
            "ArchiveIncomplete",
            f"{objects.uri} holds {messages} messages where {plan.messages - plan.erased} leave; nothing was removed",
        )
    manifest = ArchiveManifest(
        preview=plan.preview.id,
        run=plan.run,
        table=context.uri,
        store=store_id(context.store),
        owner=context.document.table.owner,
        table_version=plan.preview.table_version,
        format=to.format,
        writing=plan.rows,
        messages=messages,
        bytes=sum(file.size for file in files),
        files=tuple(files),
    )
    with context.store.step("archive-seal"):
        objects.write(MANIFEST, manifest.model_dump_json(by_alias=True, indent=2).encode())
    return manifest


def _files(context: PurgeRun, to: Archive, uri: str) -> list[ArchivedFile]:
    """All files of the archive, read back."""
    by_file = _read(context, to, uri).groupBy(
        F.col("_metadata.file_name").alias("name"), F.col("_metadata.file_size").alias("size")
    )
    files = by_file.count().orderBy("name").collect()
    return [ArchivedFile(name=row["name"], size=row["size"], messages=row["count"]) for row in files]


def _sweep(context: PurgeRun, objects: Objects, sealed: ArchiveManifest) -> None:
    """Remove files that the manifest doesn't list: those of earlier or unfinished writes."""
    wanted = {file.name for file in sealed.files}
    # Markers and checksums; readers ignore such names too.
    names = [name for name in objects.names() if not name.startswith(("_", ".")) and not name.endswith("/")]
    for name in names:
        if name not in wanted:
            with context.store.step("archive-sweep"):
                objects.delete(name)
