"""A leader whose requests fail in an unusual way."""

import asyncio
from typing import Any

from messagestore_operator.kube.leader import Leader, Timing

FAST = Timing(duration=0.5, renew_deadline=0.2, retry=0.01)


class Broken:
    """A client that can't even send a request, as it can't read its token."""

    async def find(self, path: str) -> None:
        raise ValueError("Token file exists but empty.")


def test_a_leader_that_cannot_even_ask_gives_up_in_time() -> None:
    client: Any = Broken()
    leader = Leader(client, "default", "leader", "me", FAST)
    asyncio.run(asyncio.wait_for(leader.hold(), 10))
