"""One message-db for all tests of this folder."""

from collections.abc import Iterator

import pytest

from support.messagedb import MessageDb, running_message_db


@pytest.fixture(scope="session")
def message_db() -> Iterator[MessageDb]:
    with running_message_db() as database:
        yield database
