"""What each answer of an endpoint means, how long to wait for the next try, and what a request is made of."""

import base64
import json
import threading
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

import pytest

from messagestore_core.addresses import Reach, is_allowed
from messagestore_core.contract.destinations import HttpRetries
from messagestore_jobs.replay.http.delivery import Lanes, next_batch
from messagestore_jobs.replay.http.endpoint import Action, action_of, wait_before
from messagestore_jobs.replay.http.events import event_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("statuses", "action"),
    [
        ((200, 201, 202, 204, 299), Action.TAKEN),
        ((None, 408, 425, 429, 500, 501, 502, 503, 504, 505, 599), Action.RETRY),
        ((401, 403, 404, 410), Action.STALL),
        ((100, 300, 301, 302, 303, 304, 307, 308), Action.STALL),
        ((400, 402, 405, 409, 411, 412, 413, 414, 415, 422, 428, 431, 451, 499), Action.SET_ASIDE),
    ],
)
def test_each_status_has_its_action(statuses: tuple[int | None, ...], action: Action) -> None:
    assert {status: action_of(status) for status in statuses} == dict.fromkeys(statuses, action)


RETRIES = HttpRetries(backoff_delay=2 * SECOND, backoff_max=10 * SECOND, retry_after_max=60 * SECOND)


@pytest.mark.parametrize(
    ("retry", "asked", "seconds"),
    [
        (1, None, 2),
        (2, None, 4),
        (3, None, 8),
        (4, None, 10),
        (10_000, None, 10),
        (1, "7", 7),
        (1, " 7 ", 7),
        (4, "7", 10),
        (1, "61", 60),
        (1, "9" * 400, 60),
        (1, "0", 2),
        (1, "-5", 2),
        (1, "soon", 2),
        (1, "", 2),
        (1, "\u0667", 2),
        (1, "Sun, 01 Mar 2026 12:00:30 GMT", 30),
        (1, "Sun, 01 Mar 2026 13:00:00 GMT", 60),
        (1, "Sun, 01 Mar 2026 11:00:00 GMT", 2),
        (1, "Sun, 99 Mar 2026 11:00:00 GMT", 2),
        (1, "Sun, 01 Mar 2026 11:00:00 +99999999999999", 2),
    ],
)
def test_a_wait_doubles_and_is_as_long_as_the_endpoint_asks_up_to_a_bound(
    retry: int, asked: str | None, seconds: float
) -> None:
    assert wait_before(retry, asked, RETRIES, NOW) == seconds * SECOND


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode("latin-1")).decode()


def line(value: str | None, **headers: str) -> bytes:
    """A staged record."""
    given = [
        {"name": name.replace("__", "-"), "value": base64.b64encode(text.encode()).decode()}
        for name, text in headers.items()
    ]
    record = {"messageId": "m", "globalPosition": 7, "key": base64_of("order-1"), "headers": given}
    return json.dumps(record | ({} if value is None else {"value": base64_of(value)})).encode() + b"\n"


def test_a_binary_event_has_its_attributes_as_fields_and_no_other_header() -> None:
    attributes = {"content__type": "application/json", "ce_id": "m1", "ce_subject": 'a "ü"%\n b'}
    others = {"CE_id": "m2", "ce_SOURCE": "/evil", "ce_a:b": "x", "Content__Type": "text/html"}
    event = event_of(line("{}", **attributes, **others, Host="evil", te="x"))
    assert (event.global_position, event.stream, event.body) == (7, "order-1", b"{}")
    assert event.headers == {
        "content-type": "application/json",
        "ce-id": "m1",
        "ce-subject": "a%20%22%C3%BC%22%25%0A%20b",
    }


def test_an_event_without_a_payload_has_no_body() -> None:
    assert event_of(line(None, ce_id="m1")).body == b""


def test_a_refused_event_is_set_aside_as_json_with_the_refusal() -> None:
    in_json = "application/cloudevents+json; charset=utf-8"
    structured = event_of(line('{"specversion":"1.0","id":"m1"}', content__type=in_json))
    binary = event_of(line("\xff", ce_specversion="1.0", ce_id="m 1", content__type="image/png"))
    refusal = {"knativeerrordest": "https://a/b", "knativeerrorcode": "422"}
    assert json.loads(structured.set_aside(422, "https://a/b")) == {"specversion": "1.0", "id": "m1", **refusal}
    assert json.loads(binary.set_aside(422, "https://a/b")) == {
        "specversion": "1.0",
        "id": "m 1",
        "datacontenttype": "image/png",
        "data_base64": "/w==",
        **refusal,
    }


@pytest.mark.parametrize("data", ['{"a":1.10,"b":1e400}', "9" * 5000, '"a\\"b"', "[" * 990 + "]" * 990, "[1,\n2]"])
def test_the_data_of_a_refused_event_stays_as_it_was_written(data: str) -> None:
    head = '"id":"m\\"1","knativeerrorcode":"400","type":"a"'
    event = event_of(line(f'{{{head},"data":{data}}}', content__type="application/cloudevents+json"))
    refusal = '"knativeerrordest":"https://a","knativeerrorcode":"422"'
    written = data.replace("\n", " ")
    assert event.set_aside(422, "https://a").decode() == f'{{{refusal},"id":"m\\"1","type":"a","data":{written}}}\n'


def test_a_lane_goes_one_by_one_and_lanes_go_at_once() -> None:
    under_way: list[str] = []
    most, lock = [0, 0], threading.Lock()

    def send(item: str) -> str:
        with lock:
            under_way.append(item[0])
            most[:] = max(most[0], len(under_way)), max(most[1], under_way.count(item[0]))
        time.sleep(0.02)
        with lock:
            under_way.remove(item[0])
        return item

    items = [f"{lane}{number}" for number in range(3) for lane in "abcdef"]
    lanes = Lanes(4, send)
    answers, error = lanes.send(items, lambda item: item[0])
    lanes.close()
    assert (answers, error, most) == (items, None, [4, 1])


def test_answers_end_at_the_first_event_without_an_answer() -> None:
    def send(item: int) -> int:
        if item == 3:
            raise OSError
        return item

    lanes = Lanes(2, send)
    answers, error = lanes.send(range(10), lambda item: item % 5)
    lanes.close()
    assert answers == [0, 1, 2]
    assert isinstance(error, OSError)


def test_batches_grow_while_they_are_quick() -> None:
    sizes = [8]
    for seconds in (0.1, 0.1, 3, 9, 9, *[0.1] * 20, *[9] * 20):
        sizes.append(next_batch(sizes[-1], seconds))
    assert sizes[:6] == [8, 16, 32, 32, 16, 8]
    assert (max(sizes), sizes[-1]) == (1000, 1)


ADDRESSES = {
    "93.184.216.34": "Public",
    "2606:2800:220:1::1": "Public",
    "64:ff9b::5db8:d822": "Public",
    "10.0.0.7": "Private",
    "172.16.3.4": "Private",
    "192.168.1.1": "Private",
    "100.64.0.1": "Private",
    "fd12:3456::1": "Private",
    "::ffff:10.0.0.7": "Private",
    "64:ff9b::a00:7": "Private",
    "224.0.0.1": "Private",
    "127.0.0.1": "Any",
    "::1": "Any",
    "0.0.0.0": "Any",
    "169.254.169.254": "Any",
    "fe80::1": "Any",
    "fd00:ec2::254": "Any",
    "100.100.100.200": "Any",
    "::ffff:127.0.0.1": "Any",
    "64:ff9b::7f00:1": "Any",
    "2002:7f00:1::": "Any",
}


@pytest.mark.parametrize("reach", ["Public", "Private", "Any"])
def test_a_run_may_reach_only_addresses_that_its_reach_allows(reach: Reach) -> None:
    order = ["Public", "Private", "Any"]
    allowed = {text for text, kind in ADDRESSES.items() if order.index(kind) <= order.index(reach)}
    assert {text for text in ADDRESSES if is_allowed(ip_address(text), reach)} == allowed
