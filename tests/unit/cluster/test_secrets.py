"""The operator reads only the metadata of Secrets, for their labels, and does not read them repeatedly."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from messagestore_operator.cluster.cluster import Cluster
from messagestore_operator.cluster.gather import Gatherer
from messagestore_operator.cluster.labels import run_annotations, run_labels, run_ref
from messagestore_operator.cluster.predicates import Predicates
from messagestore_operator.cluster.surroundings import Secrets
from messagestore_operator.decide.blockers import Need
from messagestore_operator.decide.run_queue import RunBounds
from messagestore_operator.decide.snapshot import Defaults, RunRef
from messagestore_operator.kube.client import ForbiddenError
from messagestore_operator.tenancy.predicate_process import PredicateProcess
from messagestore_operator.tenancy.settings import Tenancy
from messagestore_operator.translate.secrets import Use
from support.launches import stream

LAKE, AUTHORITY = Need("lake", Use.STORAGE), Need("lake-ca", Use.STORAGE, certificate=True)


class Server:
    """An API server with only Secrets; records requests."""

    def __init__(self, **labels: str | None) -> None:
        self.labels: Mapping[str, str | None] = labels
        self.asked: list[str] = []
        self.forbidden = False
        self.version = "1"

    async def find(self, path: str) -> None:
        assert "secrets" not in path, "only their metadata is asked for"

    async def find_metadata(self, path: str) -> dict[str, Any] | None:
        self.asked.append(path)
        if self.forbidden:
            raise ForbiddenError("GET", path, 403, "Forbidden", "no")
        name = path.rpartition("/")[2]
        if name not in self.labels:
            return None
        use = self.labels[name]
        labels = {} if use is None else {"messagestore.dev/use": use}
        return {"metadata": {"name": name, "labels": labels, "uid": "u1", "resourceVersion": self.version}}


def read(secrets: Secrets, *needs: Need) -> dict[str, frozenset[str]]:
    return dict(asyncio.run(secrets.uses("default", needs)))


@pytest.mark.parametrize(
    ("label", "allowed"),
    [
        ("storage", (True, True)),
        ("kafka.storage", (True, True)),
        ("ca", (False, True)),
        ("kafka", (False, False)),
        ("", (False, False)),
        (None, (False, False)),
        ("storages", (False, False)),
    ],
)
def test_a_label_names_the_uses_it_allows(label: str | None, allowed: tuple[bool, bool]) -> None:
    client: Any = Server(lake=label)
    uses = read(Secrets(client), LAKE)["lake"]
    assert (LAKE.allowed_by(uses), AUTHORITY.allowed_by(uses)) == allowed


def test_a_usable_secret_is_read_once_a_minute_and_an_unusable_one_more_often() -> None:
    clock = [0.0]
    client: Any = Server(lake="storage")
    secrets = Secrets(client, lambda: clock[0])
    asked = []
    for clock[0] in (0.0, 1.0, 6.0, 59.0, 61.0):
        read(secrets, LAKE, AUTHORITY)
        asked.append([path.rpartition("/")[2] for path in client.asked])
        client.asked.clear()
    assert asked == [["lake", "lake-ca"], [], ["lake-ca"], ["lake-ca"], ["lake"]]


def test_a_secret_that_stays_forbidden_to_read_counts_as_unusable() -> None:
    clock = [0.0]
    client: Any = Server(lake="storage")
    secrets = Secrets(client, lambda: clock[0])
    client.forbidden = True
    for clock[0] in (0.0, 9.0):
        with pytest.raises(ForbiddenError):
            read(secrets, LAKE)
    clock[0] = 10.0
    assert not LAKE.allowed_by(read(secrets, LAKE)["lake"])


def test_an_api_server_that_forbids_everything_just_after_its_start_is_asked_again() -> None:
    clock = [0.0]
    client: Any = Server(lake="storage")
    secrets = Secrets(client, lambda: clock[0])
    for clock[0] in (0.0, 1000.0):
        client.forbidden = True
        with pytest.raises(ForbiddenError):
            read(secrets, LAKE)
        client.forbidden = False
        assert LAKE.allowed_by(read(secrets, LAKE)["lake"])


def test_a_stream_whose_run_goes_on_has_its_secrets_and_is_not_asked_about_them() -> None:
    client: Any = Server(**{"lake-credentials": "storage"})
    cluster = Cluster.of(client, "op", RunBounds())
    cluster.namespaces.note("default", False)
    gatherer = Gatherer(cluster, Predicates(PredicateProcess(), list), Defaults())
    found = []
    for version, current in (
        ("1", {}),
        ("2", {"currentRun": {"name": "orders-ingest-1", "kind": "ingest", "number": 1}}),
    ):
        document = stream().to_dict()
        document["metadata"]["resourceVersion"] = version
        cluster.cache.put({**document, "kind": "MessageStream", "status": current})
        cluster.cache.put(_running("orders-ingest-1"))
        snapshot = asyncio.run(gatherer.snapshot(("MessageStream", "default", "orders")))
        found.append(snapshot.secrets)
    assert found == [{"lake-credentials": frozenset({"storage"})}, None]


def test_a_change_of_a_secret_is_known_within_some_minutes_and_what_can_not_be_read_is_not() -> None:
    clock = [0.0]
    client: Any = Server(lake="storage", **{"lake-ca": "ca"})
    secrets = Secrets(client, lambda: clock[0])

    def version(*needs: Need) -> str | None:
        return asyncio.run(secrets.version("default", needs))

    before = version(LAKE, AUTHORITY)
    assert before is not None
    assert version() is version(Need("missing", Use.KAFKA)) is None
    client.version = "2"
    clock[0] = 170.0
    assert version(LAKE, AUTHORITY) == before
    clock[0] = 181.0
    assert version(LAKE, AUTHORITY) not in (None, before)
    client.labels = {"lake": "storage"}
    clock[0] = 400.0
    assert version(LAKE, AUTHORITY) is None


def test_the_run_of_a_continuous_stream_carries_the_version_of_its_secrets() -> None:
    client: Any = Server(**{"lake-credentials": "storage", "lake-ca": "ca"})
    open_to_all = Defaults(tenancy=Tenancy.model_validate({"secrets": {"requireLabel": False}}))
    found = []
    continuous: dict[str, Any] = {"continuous": {"batchInterval": "PT10S"}}
    for trigger, defaults in ((continuous, Defaults()), ({"manual": {}}, Defaults()), (continuous, open_to_all)):
        cluster = Cluster.of(client, "op", RunBounds())
        cluster.namespaces.note("default", False)
        document = stream().to_dict()
        document["spec"]["trigger"] = trigger
        cluster.cache.put({**document, "kind": "MessageStream", "status": {}})
        gatherer = Gatherer(cluster, Predicates(PredicateProcess(), list), defaults)
        snapshot = asyncio.run(gatherer.snapshot(("MessageStream", "default", "orders")))
        found.append(snapshot.secrets_version)
    version, *others = found
    assert version
    assert others == [None, None]
    ref = RunRef("default", "orders-ingest-1", 1, "ingest", secrets_version=version)
    assert run_ref({"metadata": {**_running(ref.name, ref)["metadata"]}}, ref.name) == ref


def _running(name: str, ref: RunRef | None = None) -> dict[str, Any]:
    ref = ref or RunRef("default", name, 1, "ingest")
    metadata = {"namespace": "default", "resourceVersion": "1", "annotations": run_annotations(ref), "name": name}
    owners = [{"kind": "MessageStream", "uid": stream().metadata.uid}]
    metadata |= {"uid": "a1", "labels": run_labels(ref, stream()), "ownerReferences": owners}
    return {"kind": "SparkApplication", "metadata": metadata, "status": {"applicationState": {"state": "RUNNING"}}}
