"""The owner of a folder: its marker is created once, changes only for an allowed new owner, and names no stranger."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from messagestore_core.contract.stores import FormerOwner, Owner, Table
from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import open_folder
from messagestore_core.store.layout import MARKER
from messagestore_core.store.storage import Storage
from messagestore_jobs.session import using
from support.interception import Interception, intercepting
from support.objectstore import ObjectStore

OLD, HEIR = Owner(namespace="billing", name="orders"), Owner(namespace="shop", name="heir")
NEIGHBOUR = Owner(namespace="billing", name="second")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    open_folder(HeldStore.of(Table(uri=f"file://{tmp_path}/store", owner=OLD), Storage()))
    return tmp_path / "store"


def owner(folder: Path) -> Any:
    return json.loads((folder / MARKER).read_text())["owner"]


@pytest.mark.parametrize(
    ("who", "former"),
    [
        (HEIR, FormerOwner(namespace="billing", name="orders")),
        (HEIR, FormerOwner(namespace="billing")),
        (NEIGHBOUR, FormerOwner(namespace="billing")),
    ],
)
def test_a_folder_is_taken_over_from_those_whom_the_document_names(
    folder: Path, who: Owner, former: FormerOwner
) -> None:
    open_folder(HeldStore.of(Table(uri=f"file://{folder}", owner=who, adopt_from=(former,)), Storage()))
    assert owner(folder) == who.model_dump()


@pytest.mark.parametrize(
    "former", [(), (FormerOwner(namespace="shop"),), (FormerOwner(namespace="billing", name="order"),)]
)
def test_a_folder_of_an_owner_that_the_document_does_not_name_is_refused_without_that_name(
    folder: Path, former: tuple[FormerOwner, ...]
) -> None:
    with pytest.raises(TableRefusedError) as refused:
        open_folder(HeldStore.of(Table(uri=f"file://{folder}", owner=HEIR, adopt_from=former), Storage()))
    assert owner(folder) == OLD.model_dump()
    said = str(refused.value).replace(str(folder), "")
    assert "belongs to another namespace's MessageStream" in said
    assert "messagestore.dev/release-table-to" in said
    assert "billing" not in said
    assert "orders" not in said


def test_within_the_namespace_the_owner_is_named(folder: Path) -> None:
    with pytest.raises(TableRefusedError, match="belongs to MessageStream billing/orders"):
        open_folder(HeldStore.of(Table(uri=f"file://{folder}", owner=NEIGHBOUR), Storage()))


@pytest.fixture
def bucket(object_store: ObjectStore) -> str:
    name = f"ownership-{uuid4().hex}"
    object_store.make_bucket(name)
    return name


@pytest.fixture
def way(object_store: ObjectStore) -> Iterator[Interception]:
    with intercepting(object_store.endpoint) as found:
        yield found


def test_of_two_that_find_a_folder_empty_one_makes_it_its_own(
    spark: SparkSession, object_store: ObjectStore, bucket: str, way: Interception
) -> None:
    entry = object_store.entry(bucket).model_copy(update={"endpoint": way.endpoint})
    marker = f"{bucket}/store/{MARKER}"
    first = json.dumps({"formatVersion": 1, "owner": OLD.model_dump()}).encode()
    way.before(f"PUT /{marker}", lambda: object_store.put(marker, first))
    with (
        using([entry], spark) as storage,
        pytest.raises(TableRefusedError, match="another namespace's MessageStream"),
    ):
        open_folder(HeldStore(f"s3a://{bucket}/store", storage, owner=HEIR))
    assert not way.armed
    assert object_store.get(marker) == first
    assert object_store.names(f"{bucket}/store") == [MARKER]


def test_an_empty_folder_on_an_object_store_is_made_a_store(
    spark: SparkSession, object_store: ObjectStore, bucket: str
) -> None:
    # Not through the intercepting proxy: it is a thread of this process, which delta-rs blocks meanwhile.
    with using([object_store.entry(bucket)], spark) as storage:
        for _ in range(2):
            open_folder(HeldStore(f"s3a://{bucket}/store", storage, owner=HEIR))
    assert json.loads(object_store.get(f"{bucket}/store/{MARKER}"))["owner"] == HEIR.model_dump()
