"""Runs of each kind with a real S3 server; each bucket has its own entry."""

import gzip
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from messagestore_core.contract.destinations import FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestOutcome, IngestTask
from messagestore_core.contract.purge import Archive, EraseOutcome, EraseTask, Match, PurgeOutcome, PurgeTask, Rule
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import CredentialVariables, Owner, StorageEntry, Table
from messagestore_core.progress import Silent
from messagestore_core.store.objects import reached
from messagestore_core.store.storage import Storage
from messagestore_jobs.driver.execute import IdleCheck, check_for_work, execute
from messagestore_jobs.session import using
from messagestore_jobs.source.file_arrivals import list_files
from messagestore_jobs.source.local_files import list_objects
from messagestore_jobs.source.plan import TIMES_PACKED
from support.helm import REPOSITORY
from support.ingests import lines, record
from support.long import few
from support.objectstore import ENVIRONMENT, LIMITED, WRONG, ObjectStore, running_object_store

AT = datetime(2026, 4, 6, tzinfo=UTC)
RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")
OWNER = Owner(namespace="default", name="orders")
Task = IngestTask | PurgeTask | ReplayTask
Run = Callable[..., RunReport]


POLICIES = [
    json.loads(block)
    for block in re.findall(r"```json\n(.*?)```", (REPOSITORY / "docs/security.md").read_text(), re.DOTALL)
    if "s3:GetObject" in block
]
"""The policies in docs/security.md: for a bucket with stores, and for a read-only bucket."""


@pytest.fixture(scope="module")
def limited(object_store: ObjectStore) -> CredentialVariables:
    """Credentials with only the rights that buckets grant."""
    object_store.make_user(LIMITED)
    return LIMITED


def allow(object_store: ObjectStore, uri: str, policy: dict[str, Any], without: str | None = None) -> None:
    """Grant the limited user a policy's actions on a bucket, except one."""
    statements = []
    for statement in policy["Statement"]:
        actions = [one for one in _listed(statement["Action"]) if one != without]
        place = re.sub("(?<=:::)[a-z]+", uri.removeprefix("s3a://"), statement["Resource"])
        user = {"AWS": [ENVIRONMENT[LIMITED.access_key]]}
        if actions:
            statements.append({**statement, "Action": actions, "Resource": place, "Principal": user})
    object_store.allow(uri.removeprefix("s3a://"), {**policy, "Statement": statements})


def _listed(actions: str | list[str]) -> list[str]:
    return [actions] if isinstance(actions, str) else actions


@pytest.fixture
def buckets(object_store: ObjectStore, request: pytest.FixtureRequest) -> dict[str, str]:
    """A test's own buckets, by their use."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())[-40:].strip("-")
    return {use: object_store.make_bucket(f"{use}-{name}") for use in ("lake", "landing", "archive", "out")}


@pytest.fixture
def document(
    object_store: ObjectStore, buckets: dict[str, str], limited: CredentialVariables
) -> Callable[..., RunDocument]:
    stores, sources = POLICIES
    for use, uri in buckets.items():
        allow(object_store, uri, sources if use == "landing" else stores)

    def document(task: Task, name: str = "run-1", table: str | None = None, **storage: StorageEntry) -> RunDocument:
        entries = {use: object_store.entry(uri.removeprefix("s3a://"), limited) for use, uri in buckets.items()}
        entries |= storage
        return RunDocument(
            run=name,
            resource=RESOURCE,
            table=Table(uri=table or f"{buckets['lake']}/orders", owner=OWNER),
            at=AT,
            storage=tuple(entries.values()),
            task=task,
        )

    return document


@pytest.fixture
def run(spark: SparkSession, document: Callable[..., RunDocument]) -> Run:
    def run(*of: Any, **storage: Any) -> RunReport:
        return execute(document(*of, **storage), lambda: spark, Silent(), 0, lambda: AT)

    return run


def arrive(object_store: ObjectStore, buckets: dict[str, str]) -> IngestTask:
    """Five messages in two files, one of them gzipped, and one bad line."""
    folder = f"{buckets['landing'].removeprefix('s3a://')}/orders"
    old = (AT - timedelta(days=100)).isoformat()
    object_store.put(f"{folder}/1.jsonl", lines(record("m1", time=old), record("m2", time=old), b"{"))
    packed = lines(record("m3"), record("m4", streamName="order-2"), record("m5"))
    object_store.put(f"{folder}/deep/2.jsonl.gz", gzip.compress(packed))
    return IngestTask(source_id="s", source=FilesSource(uri=f"{buckets['landing']}/orders/"))


def outcome(report: RunReport) -> IngestOutcome | PurgeOutcome | EraseOutcome | ReplayOutcome:
    assert report.error is None, report.error
    assert isinstance(report.outcome, IngestOutcome | PurgeOutcome | EraseOutcome | ReplayOutcome)
    return report.outcome


def ids(object_store: ObjectStore, uri: str) -> list[str]:
    """The message ids of a store, read from the bucket by another reader with other settings."""
    options = Storage([object_store.entry(uri.split("/")[2])]).delta_options(uri)
    rows = DeltaTable(f"{uri.replace('s3a', 's3')}/messages", storage_options=options).to_pyarrow_table()
    return sorted(rows["message_id"].to_pylist())


def test_an_ingest_with_nothing_new_reports_the_same_without_spark(
    run: Run,
    document: Callable[..., RunDocument],
    spark: SparkSession,
    object_store: ObjectStore,
    buckets: dict[str, str],
) -> None:
    task = arrive(object_store, buckets)
    landing = buckets["landing"].removeprefix("s3a://")
    for name in ("_hidden/1.jsonl", ".part", "deep/_SUCCESS", "a b%20#ü?.jsonl", "0.jsonl"):
        object_store.put(f"{landing}/orders/{name}", b"")
    object_store.files().create_dir(f"{landing}/orders/empty")
    object_store.put(f"{landing}/orders-of-others/1.jsonl", b"x")
    uri = f"{buckets['landing']}/orders"
    with using([object_store.entry(landing)], spark) as storage:
        by_hadoop = pa.concat_tables(list_files(spark, uri)).sort_by("uri")
        assert pa.concat_tables(list_objects(uri, *reached(uri, storage))).sort_by("uri") == by_hadoop
        assert list(list_objects(f"{uri}/none", *reached(f"{uri}/none", storage))) == []
    assert by_hadoop.num_rows == 4

    outcome(run(task))
    found = check_for_work(document(task), lambda: AT).report
    assert found.model_copy(update={"usage": None}) == run(task).model_copy(update={"usage": None})
    object_store.put(f"{landing}/orders/new.jsonl.gz", b"x" * 10)
    assert check_for_work(document(task), lambda: AT) == IdleCheck(bytes=10 * TIMES_PACKED, reached=True)


def test_a_source_whose_bucket_is_gone_is_not_one_with_nothing_new(
    run: Run, document: Callable[..., RunDocument], object_store: ObjectStore, buckets: dict[str, str]
) -> None:
    outcome(run(arrive(object_store, buckets)))
    gone = IngestTask(source_id="s", source=FilesSource(uri="s3a://no-such-landing/orders"))
    again = document(gone, landing=object_store.entry("no-such-landing"))
    assert check_for_work(again, lambda: AT) == IdleCheck()


def test_ingest_purge_with_archive_and_replay(run: Run, object_store: ObjectStore, buckets: dict[str, str]) -> None:
    task = arrive(object_store, buckets)
    ingested = outcome(run(task))
    assert (ingested.counts.stored, ingested.counts.dead_lettered, ingested.lag.files) == (5, 1, 0)
    assert ids(object_store, f"{buckets['lake']}/orders") == ["m1", "m2", "m3", "m4", "m5"]
    again = outcome(run(task, "run-2"))
    assert again.counts.received == 0

    old = Rule(name="old", max_age=timedelta(days=30))
    purge = PurgeTask(mode="Enforce", rules=(old,), archive=Archive(uri=f"{buckets['archive']}/orders"))
    purged = outcome(run(purge, "purge-1"))
    assert (purged.purge.purged, purged.purge.archived) == (2, 2)
    assert ids(object_store, f"{buckets['lake']}/orders") == ["m3", "m4", "m5"]
    archived = object_store.names(f"{buckets['archive'].removeprefix('s3a://')}/orders")
    assert any(name.endswith("_manifest.json") for name in archived)

    to_files = ReplayTask(job_id="again", destination=FilesDestination(uri=f"{buckets['out']}/again"))
    replayed = outcome(run(to_files, "replay-1"))
    assert (replayed.progress.replayed, replayed.complete) == (3, True)
    out = f"{buckets['out'].removeprefix('s3a://')}/again"
    assert object_store.names(out) == ["manifest.json", "part-00000000.jsonl"]
    sent = [json.loads(line)["messageId"] for line in object_store.get(f"{out}/part-00000000.jsonl").splitlines()]
    assert sorted(sent) == ["m3", "m4", "m5"]

    target = Table(uri=f"{buckets['out']}/copy", owner=Owner(namespace="default", name="copy"))
    to_stream = ReplayTask(job_id="copy", destination=StreamDestination(table=target, ingest=task))
    assert outcome(run(to_stream, "replay-2")).model_dump()["complete"]
    assert ids(object_store, target.uri) == ["m3", "m4", "m5"]

    object_store.keep_versions(buckets["lake"].removeprefix("s3a://"))
    erased = Rule(name="erased", match=Match(stream_names=("order-2",)), erase=True)
    erasing = PurgeTask(mode="Enforce", rules=(erased,), erase_within=timedelta(0))
    outcome_of_it = outcome(run(erasing, "purge-2"))
    assert (outcome_of_it.purge.erased, outcome_of_it.purge.erase_due_by) == (1, AT)
    assert ids(object_store, f"{buckets['lake']}/orders") == ["m3", "m5"]
    gone = outcome(run(EraseTask(), "erase-1"))
    assert (gone.erased, gone.erased_at) == (1, AT)
    elsewhere, versions = gone.not_erased
    assert "sealed archives" in elsewhere
    assert "is Enabled. Give it a lifecycle rule that expires noncurrent versions" in versions


RIGHTS = [
    ("landing", "s3:ListBucket"),
    ("landing", "s3:GetObject"),
    ("lake", "s3:ListBucket"),
    ("lake", "s3:GetObject"),
    ("lake", "s3:PutObject"),
]


@pytest.mark.parametrize(("use", "action"), few(RIGHTS, RIGHTS[0], RIGHTS[4]))
def test_a_missing_right_is_named(
    run: Run, object_store: ObjectStore, buckets: dict[str, str], use: str, action: str
) -> None:
    task = arrive(object_store, buckets)
    stores, sources = POLICIES
    allow(object_store, buckets[use], sources if use == "landing" else stores, without=action)
    error = run(task).error
    assert error.reason == "StorageDenied"


def test_files_that_may_not_be_read_are_told_once_all_others_are_taken_in(
    run: Run, object_store: ObjectStore, buckets: dict[str, str]
) -> None:
    task = arrive(object_store, buckets)
    sources = POLICIES[1]
    partly = json.loads(json.dumps(sources).replace("landing/*", "landing/orders/deep/*"))
    allow(object_store, buckets["landing"], partly)

    first = outcome(run(task))
    error = run(task, "run-2").error
    allow(object_store, buckets["landing"], sources)
    third = outcome(run(task, "run-3"))

    assert (first.counts.received, third.counts.received) == (3, 3)
    assert error.reason == "StorageDenied"
    assert f"1 of 1 that are due, the first of them {buckets['landing']}/orders/1.jsonl" in error.message


def test_credentials_that_are_refused_are_told_and_not_shown(
    run: Run, object_store: ObjectStore, buckets: dict[str, str]
) -> None:
    task = arrive(object_store, buckets)
    report = run(task, lake=object_store.entry(buckets["lake"].removeprefix("s3a://"), WRONG))
    assert report.error.reason == "StorageDenied"
    assert "those of the Secret in storage.credentialsSecretRef: check the keys" in report.error.message
    assert "test-access-key" not in report.error.message


def test_a_bucket_that_is_missing_is_named(run: Run, object_store: ObjectStore, buckets: dict[str, str]) -> None:
    source = FilesSource(uri="s3a://no-such-landing/orders")
    report = run(IngestTask(source_id="s", source=source), landing=object_store.entry("no-such-landing"))
    assert report.error.reason == "StorageMissing"
    assert "no-such-landing" in report.error.message


def test_an_object_store_that_is_not_there_is_told_at_once(run: Run, buckets: dict[str, str]) -> None:
    nowhere = StorageEntry(bucket="far", endpoint="http://127.0.0.1:1", path_style_access=True, environment=WRONG)
    report = run(IngestTask(source_id="s", source=FilesSource(uri="s3a://far/orders")), landing=nowhere)
    assert report.error.reason == "StorageUnreachable"


def test_a_server_is_believed_by_its_own_authority(run: Run, buckets: dict[str, str]) -> None:
    with running_object_store(https=True) as private:
        uris = {"landing": private.make_bucket("private-landing"), "lake": private.make_bucket("private-lake")}
        task = arrive(private, {**buckets, "landing": uris["landing"]})
        entries = {use: private.entry(uri.removeprefix("s3a://")) for use, uri in uris.items()}
        report = run(task, table=f"{uris['lake']}/orders", **entries)
        stranger = entries["lake"].model_copy(update={"ca_file": None})
        unbelieved = run(task, table=f"{uris['lake']}/orders", landing=stranger, lake=stranger)
    ingested = outcome(report)
    assert ingested.counts.stored == 5
    assert unbelieved.error.reason == "StorageUnreachable"
