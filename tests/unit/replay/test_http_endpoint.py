"""A real HTTP endpoint that is slow, wrong, down and back: what is tried again, what ends a run, what is set aside."""

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.destinations import Folder, HttpDestination, HttpHeader, HttpRetries
from messagestore_core.progress import never
from messagestore_core.store.errors import RunFailedError, RunStoppedError
from messagestore_jobs.replay.http.endpoint import Endpoint, Taken
from messagestore_jobs.replay.http.events import Event, event_of
from support.certificates import certify
from support.httpendpoint import Answer, HttpEndpoint, http_endpoint
from support.servers import free_ports
from support.waiting import scaled

EVENT = Event(7, "order-1", {"content-type": "application/json", "ce-globalposition": "7", "ce-id": "m7"}, b'{"n":7}')
QUICK = HttpRetries(
    retry=3,
    backoff_delay=timedelta(milliseconds=10),
    backoff_max=timedelta(milliseconds=40),
    timeout=timedelta(seconds=0.5),
)
FOLDER = Folder(uri="file:///refused")


@pytest.fixture
def endpoint() -> Iterator[HttpEndpoint]:
    with http_endpoint() as running:
        yield running


def send(url: str, stopped: Callable[[], bool] = lambda: False, event: Event = EVENT, **given: Any) -> Taken:
    """Send an event once."""
    sender = Endpoint(HttpDestination(**{"url": url, "delivery": QUICK, **given}), stopped)
    try:
        return sender.send(event)
    finally:
        sender.close()


def test_an_event_is_posted_once_with_its_fields(endpoint: HttpEndpoint) -> None:
    assert send(f"{endpoint.url}?a=b%20c") == Taken(EVENT)
    (request,) = endpoint.requests
    assert (request.path, request.body) == ("/events?a=b%20c", EVENT.body)
    assert EVENT.headers.items() <= request.headers.items()
    assert request.headers["content-length"] == "7"


def test_an_event_whose_content_type_no_field_can_have_is_sent(endpoint: HttpEndpoint) -> None:
    said = base64.b64encode("text/plain; name=\u65e5\u672c".encode()).decode()
    staged = {"globalPosition": 7, "headers": [{"name": "content-type", "value": said}]}
    event = event_of(json.dumps(staged).encode())
    assert send(endpoint.url, event=event) == Taken(event)
    assert endpoint.requests[0].headers["content-type"] == "text/plain; name=%E6%97%A5%E6%9C%AC"


TROUBLES = [
    Answer(408),
    Answer(425),
    Answer(429, {"Retry-After": "0"}),
    Answer(500),
    Answer(503, {"Retry-After": "Thu, 01 Jan 1970 00:00:00 GMT"}),
    Answer(599),
    Answer(None),
    Answer(202, after=2),
]


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda one: f"{one.status} after {one.after}")
def test_an_endpoint_in_trouble_is_asked_again(endpoint: HttpEndpoint, trouble: Answer) -> None:
    answers = iter([trouble, trouble])
    endpoint.answer = lambda _: next(answers, Answer(200))
    assert send(endpoint.url) == Taken(EVENT)
    assert len(endpoint.requests) == 3


def test_a_wait_that_the_endpoint_asks_for_is_kept_up_to_a_bound(endpoint: HttpEndpoint) -> None:
    answers = iter([Answer(429, {"Retry-After": "3600"})])
    endpoint.answer = lambda _: next(answers, Answer(200))
    began = time.monotonic()
    send(endpoint.url, delivery=QUICK.model_copy(update={"retry_after_max": timedelta(seconds=0.3)}))
    assert 0.3 <= time.monotonic() - began < 30


def test_after_the_last_try_the_run_ends_and_nothing_is_set_aside(endpoint: HttpEndpoint) -> None:
    endpoint.answer = lambda _: Answer(503)
    with pytest.raises(RunFailedError, match="did not take a message after 4 tries: it answered 503") as failure:
        send(endpoint.url, dead_letter=FOLDER)
    assert (failure.value.reason, len(endpoint.requests)) == ("HttpUnreachable", 4)


def test_an_endpoint_that_is_down_is_told_without_its_path() -> None:
    (port,) = free_ports(1)
    with pytest.raises(RunFailedError, match="no answer") as failure:
        send(f"http://127.0.0.1:{port}/secret-path")
    assert (failure.value.reason, "secret-path" in str(failure.value)) == ("HttpUnreachable", False)


@pytest.mark.parametrize(
    ("status", "reason", "words"),
    [
        (401, "HttpDenied", "answers 401: check destination.http.url"),
        (403, "HttpDenied", "answers 403: check destination.http.url"),
        (404, "HttpDenied", "answers 404: check destination.http.url"),
        (410, "HttpDenied", "answers 410: check destination.http.url"),
        (301, "HttpDenied", "answers 301: redirects are not followed"),
        (307, "HttpDenied", "answers 307: redirects are not followed"),
        (422, "HttpRefused", "refuses the message at global position 7 with 422"),
    ],
)
def test_an_answer_that_no_retry_helps_ends_the_run_at_once(
    endpoint: HttpEndpoint, status: int, reason: str, words: str
) -> None:
    with http_endpoint() as elsewhere:
        endpoint.answer = lambda _: Answer(status, {"Location": elsewhere.url})
        with pytest.raises(RunFailedError, match=words) as failure:
            send(endpoint.url, dead_letter=None if status == 422 else FOLDER)
        assert failure.value.reason == reason
        assert (len(endpoint.requests), elsewhere.requests) == (1, [])


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_message_that_is_refused_is_set_aside_if_there_is_a_place(endpoint: HttpEndpoint, status: int) -> None:
    endpoint.answer = lambda _: Answer(status)
    assert send(endpoint.url, dead_letter=FOLDER) == Taken(EVENT, status)


def test_a_large_answer_is_not_waited_for(endpoint: HttpEndpoint) -> None:
    endpoint.answer = lambda _: Answer(body=b"x" * 5_000_000)
    assert send(endpoint.url) == Taken(EVENT)


def test_more_large_answers_than_requests_under_way_leave_room_for_the_next(endpoint: HttpEndpoint) -> None:
    endpoint.answer = lambda _: Answer(body=b"x" * 5_000_000)
    sender = Endpoint(HttpDestination(url=endpoint.url, delivery=QUICK, in_flight=2), never)
    sent: list[Taken] = []
    thread = threading.Thread(target=lambda: sent.extend(sender.send(EVENT) for _ in range(3)), daemon=True)
    thread.start()
    thread.join(scaled(20))
    assert sent == [Taken(EVENT)] * 3
    sender.close()


def test_a_run_that_is_stopped_ends_between_two_tries(endpoint: HttpEndpoint) -> None:
    endpoint.answer = lambda _: Answer(503)
    slow = QUICK.model_copy(update={"backoff_delay": timedelta(minutes=5), "backoff_max": timedelta(minutes=5)})
    with pytest.raises(RunStoppedError):
        send(endpoint.url, lambda: bool(endpoint.requests), delivery=slow)


def test_an_endpoint_with_a_private_authority_gets_a_header_from_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, *own = certify(tmp_path)
    monkeypatch.setenv("TOKEN", "Bearer s3cr3t\n")
    header = HttpHeader(name="Authorization", environment="TOKEN")
    with http_endpoint(certificate=(own[0], own[1])) as endpoint:
        with pytest.raises(RunFailedError, match=r"no answer \(SSLError\)"):
            send(endpoint.url, header=header)
        send(endpoint.url, header=header, ca_file=str(authority))
        assert [request.headers["authorization"] for request in endpoint.requests] == ["Bearer s3cr3t"]


@pytest.mark.parametrize("secret", ["s3cr3t\r\nHost: evil", "s3cr3t\x00", "", " ", "schlüssel"])
def test_a_secret_that_is_no_header_is_told_without_its_value(secret: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOKEN", raising=False)
    if "\x00" not in secret:
        monkeypatch.setenv("TOKEN", secret)
    with pytest.raises(RunFailedError, match="one line of printable ASCII") as failure:
        send("https://127.0.0.1:1/", header=HttpHeader(name="X-Key", environment="TOKEN"))
    assert (failure.value.reason, "s3cr3t" in str(failure.value)) == ("MissingKey", False)


@pytest.mark.parametrize("reach", ["Public", "Private"])
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::ffff:127.0.0.1]"])
def test_no_connection_is_made_to_the_node_itself(endpoint: HttpEndpoint, host: str, reach: str) -> None:
    with pytest.raises(RunFailedError, match="stands for addresses that runs may not reach") as failure:
        send(endpoint.url.replace("127.0.0.1", host), addresses=reach)
    assert (failure.value.reason, endpoint.requests) == ("HttpAddressForbidden", [])


def test_a_name_that_does_not_resolve_is_an_endpoint_that_is_down() -> None:
    with pytest.raises(RunFailedError, match=r"no answer \(NameResolutionError\)"):
        send("http://nowhere.invalid/", delivery=QUICK.model_copy(update={"retry": 0}))
