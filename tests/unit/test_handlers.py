"""What kopf keeps of the objects that it watches."""

import asyncio

from messagestore_operator.handlers import NoMemories


def test_nothing_is_kept_of_an_object_between_two_events() -> None:
    memories = NoMemories()
    noted = asyncio.run(memories.recall({"metadata": {"uid": "1"}}, noticed_by_listing=True, memobase=None))
    assert noted.noticed_by_listing
    assert not list(memories.iter_all_memories())
