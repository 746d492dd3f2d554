"""The messages that `helm test` puts into a bucket."""

import pytest

from messagestore_jobs.samples import main
from support.objectstore import WRONG, ObjectStore


def test_samples_are_written_to_the_folder_by_a_storage_entry(object_store: ObjectStore) -> None:
    uri = object_store.make_bucket("samples")
    main([object_store.entry("samples").model_dump_json(by_alias=True), f"{uri}/run/landing", "10"])
    assert object_store.names("samples") == ["run/landing/samples.jsonl"]
    with pytest.raises(OSError, match="SIGNATURE_DOES_NOT_MATCH"):
        main([object_store.entry("samples", WRONG).model_dump_json(by_alias=True), f"{uri}/run/landing", "10"])
