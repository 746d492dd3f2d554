"""Two namespaces that name one folder: neither waits for the other, learns of it, or gets a table without permission.

Spark is faked, but its drivers open and delete stores with the jobs' own code, which checks the owner of a folder.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.run_document import DeleteTask, RunDocument
from messagestore_core.contract.stores import Owner, Table
from messagestore_core.progress import Silent
from messagestore_core.store.claim import holding
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.folder import check_folder, open_folder
from messagestore_core.store.layout import MARKER
from messagestore_core.store.storage import Storage
from messagestore_jobs.delete import check_deletion, run_delete
from messagestore_jobs.driver.failures import error_of
from support.operators import eventually
from support.tenants import Tenants

ELSEWHERE = {"endpoint": "https://elsewhere.example.org", "credentialsSecretRef": {"name": "lake-credentials"}}
HOURLY, NEVER = {"interval": "PT1H"}, {"manual": {}}


class Stores:
    """Stores in a local folder, in place of object storage."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def table(self, uri: str, owner: Owner, server: str = "objects.example.org") -> Table:
        """The local table in place of a table on object storage."""
        return Table(uri=f"file://{self._folder}/{server}/{uri.partition('://')[2]}", owner=owner)

    def owner(self, uri: str) -> str:
        """The owner of a table."""
        found = json.loads((Path(self.table(uri, Owner(namespace="", name="")).uri[7:]) / MARKER).read_text())["owner"]
        return f"{found['namespace']}/{found['name']}"

    def opened(self, given: dict[str, Any]) -> dict[str, str] | None:
        """Do a driver's first step with its document; return the error that it ends with, or None."""
        document = RunDocument.model_validate_json(json.dumps(given))
        server = (document.storage[0].endpoint or "").partition("://")[2]
        here = self.table(document.table.uri, document.table.owner, server)
        table = document.table.model_copy(update={"uri": here.uri})
        store, local = HeldStore.of(table, Storage()), document.model_copy(update={"table": table})
        deletes = isinstance(document.task, DeleteTask)
        try:
            check_deletion(store, local) if deletes else check_folder(store)
            with holding([store], document.run):
                run_delete(store, local, Silent()) if deletes else open_folder(store)
        except RunFailedError as failure:
            error = error_of(failure, document)
            return {"reason": error.reason, "message": error.message.replace(table.uri, document.table.uri)}
        return None


@pytest.fixture(scope="module")
def tenancy(namespaces: list[str]) -> dict[str, Any]:
    """The settings allow adoption from an owner in the other namespace that is gone."""
    _, one, other = namespaces
    return {"adoptions": [{"uri": "s3a://lake/left", "from": f"{other}/gone", "to": f"{one}/finder"}]}


@pytest.fixture(scope="module", autouse=True)
def stores(tenants: Tenants, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    found = Stores(tmp_path_factory.mktemp("stores"))
    for spark in tenants.sparks.values():
        spark.opens = found.opened
    return found


def asks_for(uri: str) -> dict[str, str]:
    return {"messagestore.dev/adopt-table": uri}


def test_a_slow_replay_of_one_namespace_keeps_no_run_of_the_other_waiting(tenants: Tenants) -> None:
    """Their folders have the same URI, on different servers."""
    one, other, folder = tenants.one, tenants.other, {"uri": "s3a://lake/shared"}
    slow, quick = tenants.sparks[one.namespace], tenants.sparks[other.namespace]
    for name, table in (("secretive", {"uri": "s3a://lake/source"}), ("hidden", folder)):
        assert one.stream(name, table=table, trigger=NEVER).accepted
    slow.seconds = 600
    spec = {"streamRef": {"name": "secretive"}, "destination": {"stream": {"name": "hidden"}}}
    assert one.make("ReplayJob", "veiled", spec).accepted
    (replay,) = eventually(lambda: slow.launched("veiled"), of=tenants.operator)

    assert other.stream("ledger", table=folder, storage=ELSEWHERE, trigger=HOURLY).accepted
    other.ready("ledger", of=tenants.operator)
    assert replay.document["task"]["destination"]["table"]["uri"] == quick.launched("ledger")[0].table
    assert not replay.over

    slow.seconds = 0.3
    one.ready("veiled", "ReplayJob", of=tenants.operator)
    for foreign in (one.namespace, "secretive", "hidden", "veiled"):
        assert foreign not in other.heard()
    for foreign in (other.namespace, "ledger"):
        assert foreign not in one.heard()


def test_only_its_owner_can_release_a_store_to_another_namespace(tenants: Tenants, stores: Stores) -> None:
    one, other, uri = tenants.one, tenants.other, "s3a://lake/wanted"
    assert other.stream("landlord", table={"uri": uri}, trigger=HOURLY).accepted
    other.ready("landlord", of=tenants.operator)

    release = {"messagestore.dev/release-table-to": f"{one.namespace}/heir"}
    assert one.stream("heir", asks_for(uri) | release, table={"uri": uri}, trigger=HOURLY).accepted
    told = one.told("heir", "TableRefused", of=tenants.operator)
    assert f"{uri} belongs to another namespace's MessageStream" in told.words
    assert "its owner has to release it, by annotation messagestore.dev/release-table-to" in told.words
    for foreign in (other.namespace, "landlord"):
        assert foreign not in one.heard()
    assert stores.owner(uri) == f"{other.namespace}/landlord"

    assert other.change("MessageStream", "landlord", {"metadata": {"annotations": release}}).accepted
    one.ready("heir", of=tenants.operator, seconds=60)
    assert stores.owner(uri) == f"{one.namespace}/heir"
    other.told("landlord", "TableReleased", of=tenants.operator)


def test_the_settings_hand_the_store_of_a_deleted_owner_to_the_heir_that_they_name(
    tenants: Tenants, stores: Stores
) -> None:
    one, uri = tenants.one, "s3a://lake/left"
    open_folder(HeldStore.of(stores.table(uri, Owner(namespace=tenants.other.namespace, name="gone")), Storage()))
    assert one.stream("thief", asks_for(uri), table={"uri": uri}, trigger=HOURLY).accepted
    one.told("thief", "TableRefused", of=tenants.operator)
    # Otherwise it could take over the store within its own namespace later.
    assert one.request("DELETE", f"{one.path('MessageStream')}/thief").accepted
    assert one.stream("finder", asks_for(uri), table={"uri": uri}, trigger=HOURLY).accepted
    one.ready("finder", of=tenants.operator)
    assert stores.owner(uri) == f"{one.namespace}/finder"


def test_a_stranger_deletes_no_store(tenants: Tenants, stores: Stores) -> None:
    one, uri = tenants.one, "s3a://lake/kept"
    open_folder(HeldStore.of(stores.table(uri, Owner(namespace=tenants.other.namespace, name="keeper")), Storage()))
    assert one.stream("wrecker", table={"uri": uri, "deletionPolicy": "Delete"}, trigger=HOURLY).accepted
    one.told("wrecker", "TableRefused", of=tenants.operator)
    assert one.request("DELETE", f"{one.path('MessageStream')}/wrecker").accepted
    refused = f"the data could not be deleted: {uri} belongs to another namespace's MessageStream; not deleted"
    eventually(lambda: refused in one.heard(), of=tenants.operator)
    assert stores.owner(uri) == f"{tenants.other.namespace}/keeper"
    for foreign in (tenants.other.namespace, "keeper"):
        assert foreign not in one.heard()
