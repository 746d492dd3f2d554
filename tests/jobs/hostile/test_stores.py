"""Each file of a store is replaced by what somebody with write access to the bucket could put there.

Each run ends with an error that says why, or does its work; nothing outside the store is read, sent, deleted or
written, and no code runs. One file of each kind gets one replacement; with MESSAGESTORE_HOSTILE=all each file gets
every possible one. Runs take turns where there are many files: each run meets each kind of file and each replacement.
"""

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from messagestore_jobs.index import store_index
from messagestore_operator.status.failures import Failure
from support.hostile_files import FIRST, KINDS, PROPERTY, USED_BY, changes, kind_of, replaced
from support.hostile_store import CANARY, Runs, Site
from support.indexes import OFTEN
from support.long import few
from support.waiting import scaled

ALL = os.environ.get("MESSAGESTORE_HOSTILE") == "all"
SECONDS = 60
STACK = re.compile(r"Traceback|\n|\bat (org|java|scala|dev)\.")
READER = {
    "ConsumerStateError",
    "CursorAheadError",
    "StoreUnreadableError",
    "StoreNotFoundError",
    "StorageError",
    "VersionNotFoundError",
}
BESIDE = {"site", "copy", "canary"}

CASES = [(kind, change) for kind in KINDS for change in (changes(kind) if ALL else [FIRST[kind]])]
OF_EACH_READER = ("marker", "last run", "claim check", "commit")
"""Kinds of files that differ in format or in the package that reads them."""
TRIED = CASES if ALL else few(CASES, *(case for case in CASES if case[0] in OF_EACH_READER))


@pytest.fixture(scope="module")
def built(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(spark, tmp_path_factory.mktemp("hostile"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in OFTEN.items():
            patch.setattr(store_index, name, value)
        site.build()
        yield site


@pytest.fixture
def site(built: Site) -> Iterator[Site]:
    built.restore()
    yield built
    built.canary.unlink(missing_ok=True)


def test_every_file_of_a_store_has_something_to_be_replaced_by(built: Site) -> None:
    kinds = {name: kind_of(name) for name in built.files()}

    assert [name for name, kind in kinds.items() if kind is None] == []
    assert set(kinds.values()) == set(KINDS)


@pytest.mark.long
def test_every_run_succeeds_on_the_unchanged_store(site: Site) -> None:
    assert {name: run() for name, run in site.runs().items()} == dict.fromkeys(site.runs())


@pytest.mark.parametrize(("kind", "change"), TRIED)
def test_a_replaced_file_does_no_harm(site: Site, kind: str, change: str) -> None:
    chosen = _chosen([name for name in site.files() if kind_of(name) == kind])
    for place, name in enumerate(chosen, CASES.index((kind, change))):
        site.restore()
        replaced(site, name, change)
        for run, work in _runs(site, kind, place, len(chosen)).items():
            began = time.monotonic()
            failure = work()
            assert time.monotonic() - began < scaled(SECONDS), f"{run} took too long with {name}: {change}"
            assert failure is None or _is_said_well(failure), f"{run} with {name} ({change}): {failure}"
        _nothing_left_the_store(site, f"{name}: {change}")


def _chosen(names: list[str]) -> list[str]:
    """The oldest and the newest of each folder, or the newest of one table, where a replacement can do harm.

    Runs read the others like the newest.
    """
    if ALL:
        oldest = {str(Path(name).parent): name for name in reversed(names)}
        newest = {str(Path(name).parent): name for name in names}
        return sorted({*oldest.values(), *newest.values()})
    tables = ("files/part", "messages", "")
    return [next(name for table in tables for name in reversed(names) if name.startswith(table))]


def _runs(site: Site, kind: str, place: int, files: int) -> Runs:
    """All runs, or one if there are enough files for each run; without ALL, the runs that read the file."""
    runs = site.runs()
    if ALL and files < len(runs):
        return runs
    names = [list(runs)[place % len(runs)]] if ALL else USED_BY.get(kind, runs)
    return {name: runs[name] for name in names}


def _is_said_well(failure: str) -> bool:
    reason, _, words = failure.partition(": ")
    known = reason in READER or reason in set(Failure)
    return known and bool(words) and len(words) <= 1000 and not STACK.search(words) and CANARY not in words


def _nothing_left_the_store(site: Site, what: str) -> None:
    assert site.canary_is_told() == [], what
    assert site.canary.read_text() == CANARY, what
    assert {path.name for path in Path(site.folder).iterdir()} == BESIDE, what
    assert site.spark._jvm.java.lang.System.clearProperty(PROPERTY) is None, what
