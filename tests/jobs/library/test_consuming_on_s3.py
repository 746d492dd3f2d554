"""Consumers of a store on a real S3 server: their rights, lost answers, and what they cost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from messagestore.consuming import Change, Consumer, ObjectCursors
from messagestore.errors import StorageError
from support.consumers import Clock, consumer, received, rows
from support.lost_answers import losing
from support.objectstore import ENVIRONMENT, LIMITED, ObjectStore, running_object_store
from support.stores import make_store


@pytest.fixture(scope="module")
def access_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "access"


@pytest.fixture(scope="module")
def server(access_log: Path) -> Iterator[ObjectStore]:
    with pytest.MonkeyPatch.context() as patch, running_object_store(access_log=access_log) as store:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield store


@pytest.fixture
def uri(server: ObjectStore, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A store in a bucket of its own."""
    make_store(tmp_path / "store", rows(range(1, 13)))
    bucket = f"b{abs(hash(request.node.name)) % 10**9}"
    server.make_bucket(bucket)
    for path in (tmp_path / "store").rglob("*"):
        if path.is_file():
            server.put(f"{bucket}/store/{path.relative_to(tmp_path / 'store')}", path.read_bytes())
    return f"s3a://{bucket}/store"


def bucket_of(uri: str) -> str:
    return uri.split("/")[2]


def at(server: ObjectStore, uri: str, clock: Clock, **given: Any) -> Consumer:
    return consumer(uri, clock, **{"storage": [server.entry(bucket_of(uri))], **given})


def test_rights_to_read_the_store_and_write_the_state_are_enough_to_consume(server: ObjectStore, uri: str) -> None:
    bucket, clock = bucket_of(uri), Clock()
    server.make_user(LIMITED)
    user = ENVIRONMENT[LIMITED.access_key]

    def allowed(actions: list[str], resource: str) -> dict[str, Any]:
        return {"Effect": "Allow", "Principal": {"AWS": [user]}, "Action": actions, "Resource": resource}

    statements = [
        allowed(["s3:ListBucket"], f"arn:aws:s3:::{bucket}"),
        allowed(["s3:GetObject"], f"arn:aws:s3:::{bucket}/*"),
        allowed(["s3:PutObject", "s3:DeleteObject"], f"arn:aws:s3:::{bucket}/store/_consumers/billing/*"),
    ]
    server.allow(bucket, {"Version": "2012-10-17", "Statement": statements})
    mine = [server.entry(bucket, LIMITED)]
    with at(server, uri, clock, storage=mine) as one:
        assert received(one, 5) == [1, 2, 3, 4, 5]
    with at(server, uri, clock, storage=mine) as another:
        assert received(another) == [*range(6, 13)]
    with pytest.raises(StorageError, match="can't be reached with these rights"):
        at(server, uri, clock, storage=mine, name="audit")


def test_of_two_writers_one_is_refused_and_a_missing_document_is_not_replaced(server: ObjectStore, uri: str) -> None:
    bucket = bucket_of(uri)
    cursors = ObjectCursors(f"s3a://{bucket}/state", [server.entry(bucket)])
    first = cursors.swap([Change("a.json", b"1", None)])["a.json"]
    assert isinstance(first, str)
    assert cursors.swap([Change("a.json", b"2", None)]) == {}
    second = cursors.swap([Change("a.json", b"2", first)])["a.json"]
    assert cursors.swap([Change("a.json", b"3", first)]) == {}
    kept = cursors.read(["a.json", "b.json"])
    assert dict(kept.items()) == {"a.json": (b"2", second)}
    assert cursors.names() == ["a.json"]
    cursors.delete("a.json")
    assert cursors.read(["a.json"]) == {}


def test_answers_that_are_lost_are_found_out(server: ObjectStore, uri: str, tmp_path: Path) -> None:
    clock, bucket = Clock(), bucket_of(uri)
    with losing(server.endpoint, tmp_path / "lost") as lossy:
        entry = server.entry(bucket).model_copy(update={"endpoint": lossy.endpoint})
        with at(server, uri, clock, storage=[entry], batch_size=4) as one:
            got = received(one, 5)
            lossy.forget()
            got += received(one)
        assert any("_consumers" in kind for kind in lossy.lost())
    assert got == [*range(1, 13)]
    with at(server, uri, clock) as another:
        assert received(another) == []


def test_a_batch_costs_a_put_for_each_of_its_slots_and_idling_one_request(
    server: ObjectStore, uri: str, access_log: Path
) -> None:
    def asked() -> list[str]:
        return [line for line in access_log.read_text().splitlines() if bucket_of(uri) in line]

    def puts() -> int:
        return sum("PutObject" in line for line in asked())

    with at(server, uri, Clock(), slots=1, batch_size=4) as one:
        received(one, 5)
        before = puts()
        received(one, 4)
        assert puts() == before + 1
        received(one)
        before = len(asked())
        assert one.receive_nowait() is None
        assert len(asked()) == before + 1
