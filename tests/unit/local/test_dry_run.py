"""A dry run works on copies, and says so of nothing."""

import fcntl
from pathlib import Path

import pytest

from messagestore_core.contract.destinations import FilesDestination, StreamDestination
from messagestore_core.contract.ingest import IngestTask, Lifecycle
from messagestore_core.contract.purge import PurgeTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.replay import ReplayTask, Route, RoutesDestination
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.store.errors import TableBusyError
from messagestore_jobs.lock import LOCK_SUFFIX
from messagestore_operator.local.dry_run import is_new, removes
from messagestore_operator.local.scratch import Scratch
from support.local_runs import tree

OWNER = Owner(namespace="default", name="orders")
RESOURCE = Resource(kind="MessageStream", namespace="default", name="orders")
FILES = {
    "_messagestore.json": b"{}",
    "_ended.json": b"{}",
    "messages/_delta_log/00000000000000000000.json": b"log",
    "messages/_delta_log/00000000000000000010.checkpoint.parquet": b"checkpoint",
    "messages/inserted_date=2026-01-05/part-0.parquet": b"rows",
    "_purges/a/rows-0/part-0.parquet": b"frozen",
    "payloads/00000000000000000001-abc": b"large",
    "_index/payloads": b"no claim check",
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    (tmp_path / "scratch").mkdir()
    return Scratch(tmp_path / "scratch", 0, lambda text: None)


def of(task: IngestTask | ReplayTask, folder: Path) -> RunDocument:
    return RunDocument(run="r", resource=RESOURCE, table=Table(uri=f"file://{folder}", owner=OWNER), task=task)


def ingest(**settings: object) -> IngestTask:
    return IngestTask(source_id="s", source=FilesSource(uri="file:///landing"), **settings)


def path_of(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


def test_a_store_is_copied_without_payloads_and_nothing_is_made_beside_it(scratch: Scratch, tmp_path: Path) -> None:
    store = write(tmp_path / "stores/orders", FILES)
    copy = path_of(scratch.document(of(ingest(), store)).table.uri)
    left_out = "payloads/00000000000000000001-abc"
    assert tree(copy) == {name: content for name, content in FILES.items() if name != left_out}
    assert [path.name for path in store.parent.iterdir()] == ["orders"]
    again = scratch.document(of(ingest(), store))
    assert path_of(again.table.uri) == copy, "the next run goes on with the same copy"


def test_only_files_of_rows_which_never_change_are_shared(scratch: Scratch, tmp_path: Path) -> None:
    store = write(tmp_path / "orders", FILES)
    copy = path_of(scratch.document(of(ingest(), store)).table.uri)
    shared = {name for name in tree(copy) if (store / name).samefile(copy / name)}
    assert shared == {"messages/inserted_date=2026-01-05/part-0.parquet"}


def test_a_store_that_does_not_exist_is_not_made(scratch: Scratch, tmp_path: Path) -> None:
    document = scratch.document(of(ingest(), tmp_path / "none/orders"))
    assert not path_of(document.table.uri).exists()
    assert not (tmp_path / "none").exists()


def test_sources_keep_their_files_and_no_rate_limit_waits(scratch: Scratch, tmp_path: Path) -> None:
    done = FilesSource(uri="file:///updates", after_ingest="Archive", archive_uri="file:///done", include=("*.json",))
    task = ingest(lifecycle=Lifecycle(source_id="u", source=done), messages_per_second=0.1)
    task = task.model_copy(update={"source": done})
    tried = scratch.document(of(task, tmp_path / "orders")).task
    kept = FilesSource(uri="file:///updates", include=("*.json",))
    assert (tried.source, tried.lifecycle.source, tried.messages_per_second) == (kept, kept, None)


def test_a_replay_knows_what_it_has_sent_and_writes_only_to_copies(scratch: Scratch, tmp_path: Path) -> None:
    sent = write(
        tmp_path / "sent",
        {
            "manifest.json": b"{}",
            "part-00000000.jsonl": b"sent",
            "_replay-j/frozen.json": b"{}",
            "round-00000001/manifest.json": b"{}",
            "round-00000001/part-00000000.jsonl": b"sent",
        },
    )
    other = write(tmp_path / "other", FILES)
    to = RoutesDestination(
        routes=(
            Route(name="a", destination=FilesDestination(uri=f"file://{sent}")),
            Route(
                name="b",
                destination=StreamDestination(table=Table(uri=f"file://{other}", owner=OWNER), ingest=ingest()),
            ),
        )
    )
    tried = scratch.document(of(ReplayTask(job_id="j", destination=to), tmp_path / "orders")).task
    files, stream = tried.destinations
    assert set(tree(path_of(files.folders[0]))) == {
        "manifest.json",
        "_replay-j/frozen.json",
        "round-00000001/manifest.json",
    }
    assert "_messagestore.json" in tree(path_of(stream.folders[0]))
    assert not {f"file://{sent}", f"file://{other}"} & {uri for one in (files, stream) for uri in one.folders}


def test_errors_of_a_dry_run_name_the_store_and_not_its_copy(scratch: Scratch, tmp_path: Path) -> None:
    copy = scratch.document(of(ingest(), tmp_path / "orders")).table.uri
    said = f"{copy} belongs to another; {path_of(copy)}/messages is torn"
    assert scratch.in_words(said) == f"file://{tmp_path}/orders belongs to another; {tmp_path}/orders/messages is torn"


def test_a_store_that_another_run_writes_is_waited_for(scratch: Scratch, tmp_path: Path) -> None:
    store = write(tmp_path / "orders", FILES)
    with Path(f"{store}{LOCK_SUFFIX}").open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TableBusyError, match="another run is writing"):
            scratch.document(of(ingest(), store))
    assert tree(path_of(scratch.document(of(ingest(), store)).table.uri)), "the next resource finds it free"


@pytest.mark.parametrize(
    ("task", "removing"),
    [
        (PurgeTask(mode="Enforce"), True),
        (PurgeTask(mode="DryRun"), False),
        (PurgeTask(mode="Enforce", approval_required=True), False),
        (PurgeTask(mode="Enforce", action="Scrub"), False),
    ],
)
def test_only_an_enforced_purge_without_approval_removes_messages_at_once(task: PurgeTask, removing: bool) -> None:
    assert removes(task) is removing


@pytest.mark.parametrize(
    ("batch", "new"), [("s/3", True), ("s/2", False), ("replay:s/3", False), ("t/1", True), ("u/9", False)]
)
def test_dead_letters_of_later_batches_of_the_own_sources_are_new(batch: str, new: bool) -> None:
    assert is_new(batch, {"s": 2, "t": 0}) is new
