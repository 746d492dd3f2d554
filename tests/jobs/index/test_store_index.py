"""The index matches the table, whatever happens to either."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Literal, NamedTuple, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from messagestore.verifying import verify
from messagestore_core.clock import microseconds
from messagestore_core.store.delta_log import files_of
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.objects import local_path
from messagestore_jobs.index import changes, read, store_index
from messagestore_jobs.index.read import Leaving
from support.external_writes import observing
from support.indexes import SECOND, Ingested, append, day, newest, next_position, remove
from support.stores import make_store

pytestmark = pytest.mark.usefixtures("index_merged_often")

NO_SPARK = cast(SparkSession, None)
"""Few rows are read without Spark."""
IDS = [f"m{n}" for n in range(8)]
STREAMS = ["a-1", "a-2", "b"]

What = Literal["batch", "append", "remove", "compact", "save", "merge", "reopen", "torn", "lost", "other manifest"]


class KilledError(Exception):
    """Stands for the end of a process."""


class Step(NamedTuple):
    what: What
    ids: list[int]


steps = st.lists(
    st.builds(Step, st.sampled_from(What.__args__), st.lists(st.integers(0, 7), max_size=4)),
    min_size=3,
    max_size=10,
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("empty") / "store"
    make_store(folder, [])
    return folder


@pytest.fixture
def uri(empty: Path, tmp_path: Path) -> str:
    return copied(empty, tmp_path / "store")


def copied(folder: Path, to: Path) -> str:
    shutil.copytree(folder, to)
    return f"file://{to}"


def objects(uri: str) -> list[Path]:
    return sorted(Path(uri.removeprefix("file://"), "_index").glob("*"))


def take(run: Ingested, step: Step, number: int) -> Ingested:
    ids = [IDS[i] for i in step.ids]
    streams = [STREAMS[i % 3] for i in step.ids]
    at = day(number // 3) + number * SECOND
    match step.what:
        case "batch":
            run.batch(ids, streams, at)
        case "compact":
            run.store.table("messages").optimize.compact()
        case "save":
            run.index.save()
        case "merge":
            # A maintenance of the same store, beside the run's own index.
            Ingested.opened(run.spark, run.store).index.merge()
        case "append":
            append(run.store, ids, streams, at, run.index.next_global)
            return opened_again(run)
        case "remove":
            remove(run.store, ids)
            return opened_again(run)
        case "reopen":
            run.index.close()
            return opened_again(run)
        case _:
            damage(run.store.uri, step.what)
            return opened_again(run)
    return run


def opened_again(run: Ingested) -> Ingested:
    return Ingested.opened(run.spark, run.store, run.batches)


def damage(uri: str, what: What) -> None:
    if what == "torn":
        for path in objects(uri)[-1:]:
            path.write_bytes(path.read_bytes()[:-9])
    if what == "lost":
        for path in objects(uri)[:1]:
            path.unlink()
    if what == "other manifest":
        for path in objects(uri):
            # It may be torn already.
            if path.name == "manifest.json" and (text := path.read_text()).endswith("}"):
                path.write_text(json.dumps({**json.loads(text), "table": "another"}))


def agrees(run: Ingested) -> None:
    held = newest(run.store)
    assert run.says(IDS) == set(held) & set(IDS)
    edge = sorted(held.values())[len(held) // 2] if held else 0
    assert run.says(IDS, edge) == {name for name in IDS if held.get(name, -1) >= edge}
    told = run.index.next_positions(pa.array(STREAMS)).tolist()
    assert told == [next_position(run.store, name) for name in STREAMS]


@given(steps)
@settings(max_examples=10)
def test_an_index_says_what_the_table_holds(empty: Path, history: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = Ingested.opened(NO_SPARK, HeldStore(copied(empty, Path(folder, "store"))))
        for number, step in enumerate(history):
            run = take(run, step, number)
            agrees(run)


def test_rows_that_the_saved_index_has_are_not_read_again(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    run.batch(IDS[:6], ["a-1"] * 6, day(0))
    run.batch(IDS[6:], ["b", "b"], day(1))
    read: list[int] = []
    before = store_index.read_in_driver
    monkeypatch.setattr(store_index, "read_in_driver", lambda u, k, c: read.append(c.rows) or before(u, k, c))
    agrees(Ingested.opened(NO_SPARK, HeldStore(uri)))
    assert read == [2]


def test_few_messages_have_an_index_once_a_run_would_read_many_commits(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_index, "SAVE_KEYS_AT_END", 100)
    saved = []
    for number in range(1, store_index.SAVE_COMMITS_AT_END + 2):
        append(HeldStore(uri), [IDS[number]], ["a-1"], day(0), number)
        Ingested.opened(NO_SPARK, HeldStore(uri)).index.close()
        saved.append(objects(uri) != [])
    assert (saved[0], saved[-1]) == (False, True)


def test_a_restored_copy_with_another_past_is_not_believed(empty: Path, uri: str, tmp_path: Path) -> None:
    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    run.batch(IDS[:2], ["a-1"] * 2, day(0))
    before = tmp_path / "before"
    shutil.copytree(uri.removeprefix("file://"), before)
    run.batch(IDS[2:5], ["a-1"] * 3, day(0))
    run.index.save()
    for name in ("messages", "heads"):
        folder = Path(uri.removeprefix("file://"), name)
        shutil.rmtree(folder)
        shutil.copytree(before / name, folder)
    append(HeldStore(uri), IDS[5:8], ["b"] * 3, day(1), 10)
    agrees(Ingested.opened(NO_SPARK, HeldStore(uri)))


def test_an_index_is_made_anew_where_the_log_has_been_cut(uri: str) -> None:
    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    run.batch(IDS[:5], ["a-1"] * 5, day(0))
    append(HeldStore(uri), IDS[5:], ["b"] * 3, day(1), 10)
    table = HeldStore(uri).table("messages")
    table.create_checkpoint()
    for path in Path(uri.removeprefix("file://"), "messages", "_delta_log").glob("*.json"):
        if int(path.stem) < table.version():
            path.unlink()
    agrees(Ingested.opened(NO_SPARK, HeldStore(uri)))


def test_a_check_of_the_store_compares_the_index_with_the_version_that_it_covers(uri: str) -> None:
    def wrong() -> tuple[str, ...]:
        check = {check.name: check for check in verify(uri)}["index"]
        assert check.examined
        return check.problems

    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    run.batch(IDS[:5], ["a-1"] * 5, day(0))
    assert wrong() == ()
    remove(HeldStore(uri), ["m3"])
    run = Ingested.opened(NO_SPARK, HeldStore(uri), 1)
    run.batch([*IDS[5:], "m3"], ["a-1"] * 4, day(1))
    run.index.save()
    assert wrong() == ()
    manifest = Path(uri.removeprefix("file://"), "_index", "manifest.json")
    covered = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**covered, "version": covered["version"] - 1}))
    assert [problem.partition(";")[0] for problem in wrong()] == [
        f"4 entries have no message in version {covered['version'] - 1}"
    ]
    torn = objects(uri)[0]
    torn.write_bytes(b"\0" * torn.stat().st_size)
    assert "is not what was written; remove _index/" in wrong()[0]


def test_a_message_that_was_removed_can_be_stored_again(uri: str) -> None:
    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    run.batch(IDS, ["a-1"] * 8, day(0))
    remove(HeldStore(uri), ["m3"])
    run = Ingested.opened(NO_SPARK, HeldStore(uri), 1)
    assert run.says(["m3", "m4"]) == {"m4"}
    run.index.save()
    assert Ingested.opened(NO_SPARK, HeldStore(uri)).says(["m3", "m4"]) == {"m4"}
    run.batch(["m3"], ["a-1"], day(1))
    assert Ingested.opened(NO_SPARK, HeldStore(uri)).says(["m3"]) == {"m3"}


def test_objects_that_no_manifest_names_go(uri: str) -> None:
    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    for number in range(30):
        run.batch([f"m{number}-{i}" for i in range(6)], ["a-1"] * 6, day(number))
    manifest = json.loads(Path(uri.removeprefix("file://"), "_index", "manifest.json").read_text())
    named = {info["name"] for kind in ("ids", "streams") for info in manifest[kind]} | set(manifest["superseded"])
    assert {path.name for path in objects(uri)} == named | {"manifest.json"}
    assert len(manifest["ids"]) <= 6


@pytest.mark.parametrize("name", ["index", "index-manifest"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_run_killed_as_it_writes_the_index_leaves_a_right_one(uri: str, name: str, moment: str) -> None:
    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    run.batch(IDS[:5], ["a-1"] * 5, day(0))

    def kill(at: str, when: str) -> None:
        if (at, when) == (name, moment):
            raise KilledError

    with observing(kill), pytest.raises(KilledError):
        run.batch(IDS[3:], ["b"] * 5, day(1))
    agrees(Ingested.opened(NO_SPARK, HeldStore(uri)))


def test_a_message_at_the_first_microsecond_of_the_window_is_a_duplicate(uri: str) -> None:
    window = microseconds(day(1))
    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    run.batch(["m1"], ["a-1"], day(1))
    assert run.says(["m1"], window) == {"m1"}
    assert run.says(["m1"], window + 1) == set()


def test_what_is_older_than_the_window_is_not_opened(uri: str) -> None:
    run = Ingested.opened(NO_SPARK, HeldStore(uri))
    run.batch([f"old-{i}" for i in range(200)], ["a-1"] * 200, day(0))
    run.index.save()
    (old,) = (path for path in objects(uri) if path.name.startswith("ids-"))
    run.batch(IDS, ["b"] * 8, day(30))
    run.index.save()
    old.unlink()
    again = Ingested.opened(NO_SPARK, HeldStore(uri))
    assert again.says([*IDS, "old-1"], microseconds(day(29))) == set(IDS)
    again.batch(["m9"], ["b"], day(31))
    assert not old.exists()
    assert Ingested.opened(NO_SPARK, HeldStore(uri)).says(["old-1"]) == {"old-1"}


def test_many_rows_are_read_by_spark(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "FEW_ROWS", 0)
    monkeypatch.setattr(read, "_ROWS_A_PART", 3)
    append(HeldStore(uri), IDS, [STREAMS[n % 3] for n in range(8)], day(0), 1)
    run = Ingested.opened(spark, HeldStore(uri))
    agrees(run)
    remove(HeldStore(uri), ["m2", "m5"])
    append(HeldStore(uri), ["m5", "n1", "n2"], ["a-1", "c", "c"], day(2), 20)
    again = Ingested.opened(spark, HeldStore(uri))
    agrees(again)
    assert again.says(["n1", "n2", "n3"]) == {"n1", "n2"}
    assert again.index.next_positions(pa.array(["c"])).tolist() == [2]
    again.index.merge()
    agrees(Ingested.opened(spark, HeldStore(uri)))
    assert all(path.is_file() for path in objects(uri))


@pytest.fixture
def run(spark: SparkSession, uri: str, monkeypatch: pytest.MonkeyPatch) -> Ingested:
    """A run that stored all ids in one batch; Spark reads what changes later."""
    monkeypatch.setattr(changes, "FEW_ROWS", 0)
    run = Ingested.opened(spark, HeldStore(uri))
    run.batch(IDS, [STREAMS[n % 3] for n in range(8)], day(0))
    return run


def test_messages_that_a_commit_removed_are_taken_out_without_a_look_at_those_that_stay(
    spark: SparkSession, run: Ingested
) -> None:
    (before,) = files_of(run.store.table("messages"))["path"].to_pylist()
    remove(run.store, ["m2", "m5"])
    run.index.left(Leaving(spark.createDataFrame([(3,), (6,)], "global_position bigint"), 2))
    agrees(run)
    for path in (before, *files_of(run.store.table("messages"))["path"].to_pylist()):
        Path(local_path(run.store.uri), "messages", path).unlink()
    again = Ingested.opened(spark, HeldStore(run.store.uri))
    assert again.says(IDS) == set(IDS) - {"m2", "m5"}


def test_several_new_commits_are_read_even_if_the_rows_of_the_last_are_given(
    spark: SparkSession, run: Ingested
) -> None:
    append(run.store, ["n1"], ["c"], day(1), 20)
    remove(run.store, ["m2"])
    run.index.left(Leaving(spark.createDataFrame([(3,)], "global_position bigint"), 1))
    agrees(run)
    assert run.says(["n1"]) == {"n1"}
