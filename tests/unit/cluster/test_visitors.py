"""Who may read the metrics, by the API server's answer about their tokens."""

import asyncio
from typing import Any

import pytest

from messagestore_operator.cluster.visitors import Visitors


class Reviews:
    """An API server that knows one token, and allows its user or not."""

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed
        self.asked: list[dict[str, Any]] = []

    async def create(self, collection: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(body)
        if body["kind"] == "TokenReview":
            known = body["spec"]["token"] == "known"
            return {"status": {"authenticated": known, "user": {"username": "prometheus", "groups": ["scrapers"]}}}
        return {"status": {"allowed": self.allowed}}


def visitors(allowed: bool = True) -> tuple[Visitors, Reviews, list[float]]:
    clock, reviews = [0.0], Reviews(allowed)
    client: Any = reviews
    return Visitors(client, lambda: clock[0]), reviews, clock


@pytest.mark.parametrize(
    ("authorization", "allowed", "status"),
    [
        ("Bearer known", True, 200),
        ("bearer known", True, 200),
        ("Bearer known", False, 403),
        ("Bearer other", True, 401),
        ("Basic known", True, 401),
        ("Bearer", True, 401),
        (None, True, 401),
    ],
)
def test_a_token_is_judged_by_the_api_server(authorization: str | None, allowed: bool, status: int) -> None:
    found, reviews, _ = visitors(allowed)
    assert asyncio.run(found.judge(authorization, "/metrics")) == status
    if status in (200, 403):
        path = {"path": "/metrics", "verb": "get"}
        assert reviews.asked[1]["spec"] == {"user": "prometheus", "groups": ["scrapers"], "nonResourceAttributes": path}


def test_what_came_of_it_is_remembered_for_a_minute() -> None:
    found, reviews, clock = visitors()
    asked = []
    for clock[0] in (0.0, 59.0, 61.0):
        asyncio.run(found.judge("Bearer known", "/metrics"))
        asked.append(len(reviews.asked))
    assert asked == [2, 2, 4]
