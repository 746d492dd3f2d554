"""How the client reacts to the API server: it waits while the server is overloaded, and continues a list."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import Configuration

from messagestore_operator.kube.client import LARGEST_ANSWER, ApiError, GoneError, KubeClient, TooLargeError, connect
from messagestore_operator.kube.ratelimit import TokenBucket

PATH = "/apis/messagestore.dev/v1alpha1/messagestreams"


class _Bucket(TokenBucket):
    """A bucket that records pauses, and does not wait."""

    def __init__(self) -> None:
        super().__init__(1000, 1000)
        self.paused: list[float] = []

    def pause(self, seconds: float) -> None:
        self.paused.append(seconds)


def _answers(*answers: web.Response, do: Callable[[KubeClient], Any]) -> tuple[Any, list[dict[str, str]], list[float]]:
    """The result of requests that get these answers, their queries, and the pauses."""
    left, asked, bucket = list(answers), list[dict[str, str]](), _Bucket()

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        return left.pop(0)

    async def ask() -> Any:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        async with (
            TestServer(app) as server,
            connect(Configuration(host=str(server.make_url("/"))[:-1]), bucket) as client,
        ):
            return await do(client)

    return asyncio.run(ask()), asked, bucket.paused


def _page(*names: str, more: str = "") -> web.Response:
    items = [{"metadata": {"name": name}} for name in names]
    return web.json_response(
        {"apiVersion": "v1", "kind": "MessageStreamList", "metadata": {"continue": more}, "items": items}
    )


def _gone(go_on: str = "") -> web.Response:
    return web.json_response({"reason": "Expired", "message": "too old", "metadata": {"continue": go_on}}, status=410)


def _overloaded(status: int = 429, **headers: str) -> web.Response:
    return web.json_response({"reason": "TooManyRequests"}, status=status, headers=headers)


async def _names(client: KubeClient) -> list[str]:
    return [item["metadata"]["name"] async for item in client.items(PATH)]


@pytest.mark.parametrize("status", [429, 503])
def test_a_request_is_made_again_after_the_time_that_the_server_asks_for(status: int) -> None:
    found, asked, paused = _answers(
        _overloaded(status, **{"Retry-After": "7"}), _page("orders"), do=lambda client: client.get(PATH)
    )
    assert found["items"] == [{"metadata": {"name": "orders"}}]
    assert (len(asked), paused) == (2, [7])


@pytest.mark.parametrize("text", ["<html>Be right back</html>", "", "[]", "{}"])
def test_an_answer_that_is_not_the_api_servers_is_an_error_of_the_request(text: str) -> None:
    """A proxy's page for people, for example; a list of it would be one without objects, or end the operator."""
    for ask in (_names, lambda client: client.get(PATH)):
        with pytest.raises(ApiError, match="no JSON object"):
            _answers(web.Response(text=text), do=ask)


def test_a_server_that_asks_for_too_long_a_time_is_not_obeyed_for_ever() -> None:
    with pytest.raises(ApiError, match="429"):
        _answers(*[_overloaded(**{"Retry-After": "86400"}) for _ in range(5)], do=lambda client: client.get(PATH))


def test_a_refused_request_without_a_retry_time_is_not_repeated_by_the_client() -> None:
    with pytest.raises(ApiError, match="429"):
        _answers(_overloaded(), do=lambda client: client.get(PATH))


def test_a_list_that_took_too_long_goes_on_with_what_there_is_now() -> None:
    found, asked, _ = _answers(_page("a", more="old"), _gone("new"), _page("b"), do=_names)
    assert found == ["a", "b"]
    assert [query.get("continue") for query in asked] == [None, "old", "new"]


def test_a_list_that_can_not_go_on_is_begun_anew() -> None:
    found, asked, _ = _answers(_page("a", more="old"), _gone(), _page("a", "b"), do=_names)
    assert found == ["a", "a", "b"]
    assert [query.get("continue") for query in asked] == [None, "old", None]


def test_a_list_is_not_begun_anew_for_ever() -> None:
    with pytest.raises(GoneError):
        _answers(*[_gone() for _ in range(5)], do=_names)


def _too_large() -> web.Response:
    return web.Response(body=b" " * (LARGEST_ANSWER + 1))


def test_a_page_that_is_too_large_is_asked_for_again_with_fewer_objects() -> None:
    found, asked, _ = _answers(_page("a", more="on"), _too_large(), _page("b", more="further"), _page("c"), do=_names)
    assert found == ["a", "b", "c"]
    assert [(query.get("continue"), query["limit"]) for query in asked] == [
        (None, "100"),
        ("on", "100"),
        ("on", "50"),
        ("further", "50"),
    ]


def test_a_single_object_that_is_too_large_ends_the_list() -> None:
    with pytest.raises(TooLargeError, match="the answer has more than 16777216 bytes"):
        _answers(*[_too_large() for _ in range(7)], do=_names)


def test_a_pause_holds_everything_back_and_no_burst_follows() -> None:
    bucket = TokenBucket(rate=10, burst=100, clock=lambda: 1000.0)
    bucket.pause(7)
    assert [round(bucket.reserve(), 6) for _ in range(3)] == [7, 7.1, 7.2]


def _change(kind: str, version: int, **more: Any) -> str:
    return json.dumps({"type": kind, "object": {"metadata": {"resourceVersion": str(version)}, **more}})


async def _changes(client: KubeClient) -> list[tuple[str, str]]:
    found = client.watch(PATH, "a=b", "7")
    return [(kind, document["metadata"]["resourceVersion"]) async for kind, document in found]


def test_a_watch_gives_each_change_since_a_version() -> None:
    lines = [_change("ADDED", 8), _change("MODIFIED", 9), _change("BOOKMARK", 12)]
    found, (asked,), _ = _answers(web.Response(text="\n".join([*lines, ""])), do=_changes)
    assert found == [("ADDED", "8"), ("MODIFIED", "9"), ("BOOKMARK", "12")]
    assert (asked["resourceVersion"], asked["labelSelector"], asked["allowWatchBookmarks"]) == ("7", "a=b", "true")


@pytest.mark.parametrize(
    "answer",
    [lambda: web.Response(text=_change("ERROR", 0, code=410, reason="Expired", message="too old") + "\n"), _gone],
)
def test_a_watch_from_too_old_a_version_says_so(answer: Callable[[], web.Response]) -> None:
    with pytest.raises(GoneError, match="too old"):
        _answers(answer(), do=_changes)


def test_a_watch_that_a_proxy_refuses_in_another_encoding_is_refused_like_any() -> None:
    with pytest.raises(ApiError, match="502"):
        _answers(web.Response(body=b"<p>Passerelle d\xe9fectueuse</p>", status=502), do=_changes)


def test_a_watchs_change_is_not_read_on_for_ever() -> None:
    with pytest.raises(TooLargeError, match="a change has more than 16777216 bytes"):
        _answers(web.Response(body=b" " * (LARGEST_ANSWER + 1)), do=_changes)
