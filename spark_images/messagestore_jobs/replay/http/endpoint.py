"""Connections to one HTTP endpoint, and what its answers mean, by CloudEvents' and Knative's rules.

Each connection checks the address that it goes to, and none follows a redirect.
"""

import os
import re
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import Enum
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError, NameResolutionError, NewConnectionError
from urllib3.response import BaseHTTPResponse
from urllib3.util.connection import create_connection

from messagestore_core.addresses import Reach, is_allowed
from messagestore_core.contract.destinations import HttpDestination, HttpRetries
from messagestore_core.store.errors import HTTP_UNREACHABLE, RunFailedError, end_if_stopped
from messagestore_jobs.replay.http.events import Event

_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")
_MOST_READ = 64 << 10
_LOOK_AGAIN_SECONDS = 0.25
_RETRIED = (408, 425, 429)
_STALLING = (401, 403, 404, 410)
_MOST_DOUBLINGS = 30


class Action(Enum):
    """What to do after an answer."""

    TAKEN = "taken"
    RETRY = "retry"
    SET_ASIDE = "set aside"
    """The endpoint refuses this message, and would again."""
    STALL = "stall"
    """The endpoint refuses all messages until somebody changes something."""


def action_of(status: int | None) -> Action:
    """What to do after an answer with this status; None: there was no answer, or not all of it."""
    if status is None or status in _RETRIED or status >= 500:
        return Action.RETRY
    if 200 <= status < 300:
        return Action.TAKEN
    # Redirects are not followed, and nothing else below 400 says that the message was taken.
    return Action.STALL if status in _STALLING or status < 400 else Action.SET_ASIDE


def wait_before(retry: int, retry_after: str | None, retries: HttpRetries, now: datetime) -> timedelta:
    """How long to wait before a retry of a number, from 1, by the answer's field ``Retry-After``, if it has one."""
    doublings: int = min(retry - 1, _MOST_DOUBLINGS)
    wait = min(retries.backoff_delay * (1 << doublings), retries.backoff_max)
    return max(wait, min(_retry_after(retry_after, now), retries.retry_after_max))


def _retry_after(text: str | None, now: datetime) -> timedelta:
    """The wait that an endpoint asks for: seconds, or a time; what is neither counts as none."""
    said = (text or "").strip()
    if said.isascii() and said.isdecimal():
        return timedelta(seconds=min(int(said[:10]), 10**9))
    try:
        until = parsedate_to_datetime(said)
    except (ValueError, TypeError, OverflowError):
        return timedelta()
    return max(timedelta(), (until if until.tzinfo else until.replace(tzinfo=UTC)) - now)


class _AddressForbiddenError(Exception):
    """A name stands for addresses that runs may not reach."""


class _Checked:
    """Opens sockets only to addresses that runs may reach, whatever the name stood for before."""

    addresses: Reach
    host: str
    port: int
    _dns_host: str
    timeout: Any
    socket_options: Any

    def _new_conn(self) -> socket.socket:
        try:
            resolved = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise NameResolutionError(self.host, self, error) from error  # type: ignore[arg-type]
        allowed = [one for one in resolved if is_allowed(_ip(one[4][0]), self.addresses)]
        if not allowed:
            raise _AddressForbiddenError
        problem: OSError | None = None
        for *_, address in allowed:
            try:
                return create_connection((str(address[0]), self.port), self.timeout, socket_options=self.socket_options)
            except OSError as error:
                problem = error
        raise NewConnectionError(self, str(problem)) from problem  # type: ignore[arg-type]


def _ip(text: object) -> IPv4Address | IPv6Address:
    # A zone may follow an address of IPv6.
    return ip_address(str(text).partition("%")[0])


def _pool(to: HttpDestination) -> HTTPConnectionPool:
    """Connections to the endpoint, as many as requests may be under way."""
    parts = urlsplit(to.url)
    seconds, secure = to.delivery.timeout.total_seconds(), parts.scheme == "https"
    timeout = Timeout(connect=seconds, read=seconds)
    given: dict[str, Any] = {"maxsize": to.in_flight, "block": True, "timeout": timeout, "retries": False}
    if secure:
        given["ssl_context"] = ssl.create_default_context(cafile=to.ca_file)
    kind, base = (HTTPSConnectionPool, HTTPSConnection) if secure else (HTTPConnectionPool, HTTPConnection)
    pool = kind(parts.hostname or "", parts.port, **given)
    pool.ConnectionCls = type("Checked", (_Checked, base), {"addresses": to.addresses})
    return pool


@dataclass(frozen=True)
class Taken:
    """An event that the endpoint has taken, or refused: then ``refused`` is its answer."""

    event: Event
    refused: int | None = None


class Endpoint:
    """Sends events to one endpoint, from any thread; asks whether the run was told to stop while it waits."""

    def __init__(self, to: HttpDestination, stopped: Callable[[], bool]) -> None:
        self._to, self._stopped = to, stopped
        parts = urlsplit(to.url)
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._place = f"{parts.scheme}://{parts.netloc}"
        self._own_headers = _secret_header(to)
        self._pool = _pool(to)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def send(self, event: Event) -> Taken:
        """Send one event until the endpoint has answered it for good.

        Raises:
            RunFailedError: it refuses all events, or it did not answer any of the tries.
            RunStoppedError: the run was told to stop between two tries.
        """
        retry, delivery = 0, self._to.delivery
        while True:
            status, retry_after, words = self._once(event)
            action = action_of(status)
            if action is Action.TAKEN:
                return Taken(event)
            if action is Action.SET_ASIDE and self._to.dead_letter is not None and status is not None:
                return Taken(event, status)
            if action is not Action.RETRY:
                raise self._error(action, status, event)
            if retry >= delivery.retry:
                tries = f"{retry + 1} tries" if retry else "one try"
                raise RunFailedError(HTTP_UNREACHABLE, f"{self._place} did not take a message after {tries}: {words}")
            retry += 1
            self._wait(wait_before(retry, retry_after, delivery, datetime.now(UTC)))

    def _once(self, event: Event) -> tuple[int | None, str | None, str]:
        """The status and the wait that an answer asks for; without an answer None, and why."""
        try:
            response = self._pool.urlopen(
                "POST",
                self._target,
                body=event.body,
                headers={**event.headers, **self._own_headers},
                redirect=False,
                retries=False,
                preload_content=False,
                decode_content=False,
                assert_same_host=False,
            )
            self._read_on(response)
        except _AddressForbiddenError:
            raise RunFailedError(
                "HttpAddressForbidden",
                f"the name in {self._place} stands for addresses that runs may not reach: loopback, link-local or a "
                "metadata service, or a private network where tenancy.http.allowPrivate is not set",
            ) from None
        except (HTTPError, OSError) as error:
            # The message of an error names the host; the class tells the rest.
            return None, None, f"no answer ({type(error).__name__})"
        return response.status, response.headers.get("Retry-After"), f"it answered {response.status}"

    def _read_on(self, response: BaseHTTPResponse) -> None:
        """Read a short answer, so that its connection can be used again; leave a long or slow one."""
        until, read = time.monotonic() + self._to.delivery.timeout.total_seconds(), 0
        try:
            while read < _MOST_READ and time.monotonic() < until:
                content = response.read1(_MOST_READ)
                if not content:
                    response.release_conn()
                    return
                read += len(content)
        except (HTTPError, OSError):
            # What counts is the status.
            pass
        response.close()
        # Closed, it still has one of the places for requests under way.
        response.release_conn()

    def _error(self, action: Action, status: int | None, event: Event) -> RunFailedError:
        if action is Action.SET_ASIDE:
            return RunFailedError(
                "HttpRefused",
                f"{self._place} refuses the message at global position {event.global_position} with {status}, and "
                "destination.http.delivery has no deadLetter to set it aside in",
            )
        if status is not None and status < 400:
            words = "redirects are not followed: name the endpoint itself in destination.http.url"
        else:
            words = "check destination.http.url, its headerSecretRef, and what the endpoint allows"
        return RunFailedError("HttpDenied", f"{self._place} answers {status}: {words}")

    def _wait(self, time_left: timedelta) -> None:
        until = time.monotonic() + time_left.total_seconds()
        while (left := until - time.monotonic()) > 0:
            end_if_stopped(self._stopped)
            time.sleep(min(left, _LOOK_AGAIN_SECONDS))


def _secret_header(to: HttpDestination) -> dict[str, str]:
    """The header with the value of a Secret.

    Raises:
        RunFailedError: the value can't be a header's.
    """
    if to.header is None:
        return {}
    value = os.environ.get(to.header.environment, "").removesuffix("\n")
    if not _HEADER_VALUE.fullmatch(value):
        raise RunFailedError(
            "MissingKey",
            f"the Secret in destination.http.headerSecretRef has no value for header {to.header.name}: it must be one "
            "line of printable ASCII",
        )
    return {to.header.name: value}
