from pathlib import Path

import pytest

from support.stores import make_store, message


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one message, to be copied."""
    folder = tmp_path_factory.mktemp("one-message") / "store"
    make_store(folder, [message(1)])
    return folder
