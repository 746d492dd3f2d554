"""Authenticates and authorises requests for metrics, by the API server."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

from messagestore_operator.cluster.api_objects import at
from messagestore_operator.cluster.client import KubeClient
from messagestore_operator.cluster.ratelimit import TokenBucket

_REMEMBERED_SECONDS = 60.0
_MOST_REMEMBERED = 1000
_STRANGERS_PER_SECOND, _STRANGERS_AT_ONCE = 5.0, 4
_BURST = 10
_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_ANSWER_SECONDS = 5.0
OK, UNAUTHORIZED, FORBIDDEN, TOO_MANY = 200, 401, 403, 429


class Visitors:
    """Checks tokens by TokenReview and SubjectAccessReview, and remembers the result for a while.

    These requests have a rate of their own, so tokens of strangers delay no other work. A token that was allowed before
    is checked again however many strangers ask.
    """

    def __init__(self, client: KubeClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client.unlimited(_ANSWER_SECONDS)
        self._clock = clock
        self._remembered: dict[bytes, tuple[float, int]] = {}
        self._strangers = TokenBucket(_STRANGERS_PER_SECOND, _BURST, clock)
        self._asking = 0

    async def authorize(self, authorization: str | None, path: str) -> int:
        """The HTTP status of a GET request for a path, by the bearer token in its header.

        It is TOO_MANY if too many unknown tokens came.

        Raises:
            ApiError: the API server could not be asked.
        """
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return UNAUTHORIZED
        key = hashlib.sha256(f"{path} {token.strip()}".encode()).digest()
        now = self._clock()
        checked_at, status = self._remembered.get(key, (-_REMEMBERED_SECONDS, UNAUTHORIZED))
        if now - checked_at < _REMEMBERED_SECONDS:
            return status
        if status != OK and (self._asking >= _STRANGERS_AT_ONCE or not self._strangers.take()):
            return TOO_MANY
        self._asking += 1
        try:
            status = await self._ask(token.strip(), path)
        finally:
            self._asking -= 1
        self._remember(key, now, status)
        return status

    def _remember(self, key: bytes, now: float, status: int) -> None:
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered = {one: answer for one, answer in self._remembered.items() if answer[1] == OK}
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = now, status

    async def _ask(self, token: str, path: str) -> int:
        review = await self._client.create(
            _REVIEWS, {**_kind("authentication", "TokenReview"), "spec": {"token": token}}
        )
        if at(review, "status", "authenticated") is not True:
            return UNAUTHORIZED
        who = at(review, "status", "user") or {}
        attributes = {
            "user": who.get("username"),
            "uid": who.get("uid"),
            "groups": who.get("groups"),
            "extra": who.get("extra"),
            "nonResourceAttributes": {"path": path, "verb": "get"},
        }
        spec = {name: value for name, value in attributes.items() if value}
        answer = await self._client.create(
            _ACCESS_REVIEWS, {**_kind("authorization", "SubjectAccessReview"), "spec": spec}
        )
        return OK if at(answer, "status", "allowed") is True else FORBIDDEN


def _kind(group: str, kind: str) -> dict[str, str]:
    return {"apiVersion": f"{group}.k8s.io/v1", "kind": kind}
