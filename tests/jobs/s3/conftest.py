"""One object store for all tests of this folder, and buckets of its own for each."""

import os
from collections.abc import Iterator

import pytest

from support.objectstore import ENVIRONMENT, ObjectStore, running_object_store

# Before there is a JVM, which never hears of later changes.
os.environ.update(ENVIRONMENT)


@pytest.fixture(scope="session")
def object_store() -> Iterator[ObjectStore]:
    with running_object_store() as store:
        yield store
