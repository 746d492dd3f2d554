"""Plain objects on a real S3 server are read, written and replaced as local ones are."""

from pathlib import Path

import pytest

from messagestore_core.store.objects import Objects
from messagestore_core.store.storage import Storage
from support.lost_answers import losing
from support.objectstore import ObjectStore

NAMES = ("plain", "deep/er", "a b%20#ü?.json", "inserted_date=2026-01-05/part", ".hidden")


@pytest.fixture(params=["local", "s3"])
def objects(request: pytest.FixtureRequest, object_store: ObjectStore, tmp_path: Path) -> Objects:
    if request.param == "local":
        return Objects(f"file://{tmp_path}/store", Storage())
    bucket = f"objects-{tmp_path.name.replace('_', '-')}"[:60].rstrip("-").lower()
    return Objects(f"{object_store.make_bucket(bucket)}/store", Storage((object_store.entry(bucket),)))


@pytest.mark.parametrize("name", NAMES)
def test_an_object_is_what_was_written(objects: Objects, name: str) -> None:
    assert (objects.read(name), objects.mark(name), objects.exists(name), objects.pieces(name, 5)) == (
        None,
        None,
        False,
        None,
    )
    objects.write(name, b"0123456789")
    assert (objects.read(name), objects.exists(name)) == (b"0123456789", True)
    first = objects.mark(name)
    objects.write(name, b"")
    assert (objects.read(name), objects.mark(name) != first) == (b"", True)
    objects.delete(name)
    objects.delete(name)
    assert objects.read(name) is None


@pytest.mark.parametrize(
    ("length", "read"), [(-5, b""), (0, b""), (4, b"0123"), (10, b"0123456789"), (1 << 62, b"0123456789")]
)
def test_the_first_bytes_are_as_many_as_there_are(objects: Objects, length: int, read: bytes) -> None:
    assert objects.read_first("one", length) is None
    objects.write("one", b"0123456789")
    assert objects.read_first("one", length) == read


def test_a_large_object_comes_in_pieces(objects: Objects) -> None:
    content = bytes(range(256)) * 20_000
    objects.write("large", content)
    pieces = list(objects.pieces("large", 1 << 20))
    assert b"".join(pieces) == content
    assert all(len(piece) >= 1 << 20 for piece in pieces[:-1])
    with objects.file("large") as large:
        assert large.read(10) == content[:10]
    with pytest.raises(FileNotFoundError):
        objects.file("none")


def test_a_swap_needs_the_object_that_was_read(objects: Objects) -> None:
    assert objects.marked("one", 100) is None
    assert objects.swap("one", b"lost", "another") is None
    first = objects.swap("one", b"1", None)
    assert objects.marked("one", 100) == (b"1", first)
    assert not objects.create("one", b"2")
    second = objects.swap("one", b"2", first)
    assert objects.swap("one", b"3", first) is None
    assert objects.marked("one", 100) == (b"2", second)


def test_a_swap_whose_answer_was_lost_counts(object_store: ObjectStore, tmp_path: Path) -> None:
    uri = object_store.make_bucket("unheard-swaps")
    with losing(object_store.endpoint, tmp_path / "lost") as way:
        entry = object_store.entry("unheard-swaps").model_copy(update={"endpoint": way.endpoint})
        objects = Objects(uri, Storage((entry,)))
        first = objects.swap("one", b"1", None)
        assert objects.marked("one", 100) == (b"1", first)
        way.forget()
        second = objects.swap("one", b"2", first)
        assert objects.marked("one", 100) == (b"2", second)
        assert len(way.lost()) == 1
        way.forget()
        assert objects.swap("one", b"3", first) is None


def test_a_missing_bucket_and_a_wrong_key_are_errors_in_words(
    object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = Objects("s3a://no-such-bucket/store", Storage((object_store.entry("no-such-bucket"),)))
    with pytest.raises(OSError, match=r"NoSuchBucket: The specified bucket does not exist"):
        missing.read("one")
    with pytest.raises(OSError, match=r"^s3a://no-such-bucket/store/one: .*NoSuchBucket"):
        missing.write("one", b"1")
    object_store.make_bucket("wrong-key")
    entry = object_store.entry("wrong-key")
    monkeypatch.setenv(entry.environment.secret_key, "wrong-secret")
    refused = Objects("s3a://wrong-key/store", Storage((entry,)))
    with pytest.raises(PermissionError, match=r"can't be reached with these rights.*SignatureDoesNotMatch") as error:
        refused.write("one", b"1")
    assert "wrong-secret" not in str(error.value)
    assert "StringToSign" not in str(error.value)
