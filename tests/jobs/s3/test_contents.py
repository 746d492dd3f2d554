"""Objects of text that were read before, on a real S3 server."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

from messagestore_core.contract.records import FilesSource
from messagestore_core.store.files import Known, Range, SourceFile
from messagestore_core.store.storage import Storage
from messagestore_jobs.source.contents import Contents, LastLines
from support.objectstore import ObjectStore

AT = datetime(2026, 1, 5, tzinfo=UTC)


def test_what_was_read_of_an_object_is_told_by_its_digest(object_store: ObjectStore) -> None:
    uri = object_store.make_bucket("texts")
    storage = Storage([object_store.entry("texts")])
    path = "texts/a b#?%20.log"

    def written(content: bytes) -> Range:
        with object_store.files().open_output_stream(path) as stream:
            stream.write(content)
        return Range(SourceFile(f"s3a://{path}", len(content), AT), 0, len(content))

    known: dict[str, Known] = {}
    read: Any = SimpleNamespace(known=lambda uris: known)
    contents = Contents(read, uri, storage)
    first = contents.with_digests([written(b"one\ntwo\n")])
    known[first[0].file.uri] = Known(first, (), {1: first[0].end})
    grown = written(b"one\ntwo\nthree")
    assert contents.going_on([grown]) == [replace(grown, start=8)]
    another = written(b"uno\ntwo\nthree")
    assert contents.going_on([another]) == [replace(another, generation=2)]
    assert contents.with_digests([replace(another, file=replace(another.file, uri=f"{uri}/gone"))])[0].digest is None
    last = LastLines(FilesSource(uri=uri, format="Text"), timedelta(minutes=1), storage)
    assert last.apart([another], AT) == ([replace(another, end=8)], [replace(another, start=8)])
