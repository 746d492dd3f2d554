"""Who may read the metrics, by the API server's answer about their tokens."""

import asyncio
from typing import Any

import pytest

from messagestore_operator.kube.scrapes import Visitors


class Reviews:
    """An API server that knows one token, and allows its user or not."""

    def __init__(self, allowed: bool) -> None:
        self.allowed = allowed
        self.asked: list[dict[str, Any]] = []

    def unlimited(self, timeout: float) -> "Reviews":
        """The same, without the rate of all other requests."""
        return self

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
def test_the_api_server_reviews_each_token(authorization: str | None, allowed: bool, status: int) -> None:
    found, reviews, _ = visitors(allowed)
    assert asyncio.run(found.authorize(authorization, "/metrics")) == status
    if status in (200, 403):
        path = {"path": "/metrics", "verb": "get"}
        assert reviews.asked[1]["spec"] == {"user": "prometheus", "groups": ["scrapers"], "nonResourceAttributes": path}


def test_a_review_is_remembered_for_a_minute() -> None:
    found, reviews, clock = visitors()
    asked = []
    for clock[0] in (0.0, 59.0, 61.0):
        asyncio.run(found.authorize("Bearer known", "/metrics"))
        asked.append(len(reviews.asked))
    assert asked == [2, 2, 4]


def test_strangers_have_few_reviews_and_hold_up_nobody_who_was_allowed() -> None:
    found, reviews, clock = visitors()
    assert asyncio.run(found.authorize("Bearer known", "/metrics")) == 200
    clock[0] = 61
    asked = len(reviews.asked)
    answers = [asyncio.run(found.authorize(f"Bearer {number}", "/metrics")) for number in range(2000)]
    assert (answers[0], answers[-1]) == (401, 429)
    assert len(reviews.asked) - asked <= 20
    assert asyncio.run(found.authorize("Bearer known", "/metrics")) == 200
    clock[0] = 63
    assert asyncio.run(found.authorize("Bearer other", "/metrics")) == 401, "the rate lets the next strangers ask"


def test_only_a_few_strangers_are_asked_about_at_once() -> None:
    found, reviews, _ = visitors()
    answered = asyncio.Event()

    async def slow(collection: str, body: dict[str, Any]) -> dict[str, Any]:
        reviews.asked.append(body)
        await answered.wait()
        return {"status": {"authenticated": False}}

    async def all_at_once() -> list[int]:
        asking = [asyncio.create_task(found.authorize(f"Bearer {number}", "/metrics")) for number in range(9)]
        await asyncio.sleep(0)
        answered.set()
        return await asyncio.gather(*asking)

    reviews.create = slow
    assert sorted(asyncio.run(all_at_once())) == [401] * 4 + [429] * 5


def test_tokens_of_strangers_push_no_allowed_one_out_of_memory() -> None:
    found, _, clock = visitors()
    assert asyncio.run(found.authorize("Bearer known", "/metrics")) == 200
    for number in range(1100):
        clock[0] += 0.2
        assert asyncio.run(found.authorize(f"Bearer {number}", "/metrics")) == 401
    while asyncio.run(found.authorize(f"Bearer more-{(number := number + 1)}", "/metrics")) != 429:
        pass
    assert asyncio.run(found.authorize("Bearer known", "/metrics")) == 200
