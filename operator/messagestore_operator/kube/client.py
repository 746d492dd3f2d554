"""The client for the Kubernetes API: JSON in, JSON out, errors grouped by remedy, a rate limit.

The official client handles connections, certificates and tokens. Its models aren't used, because the operator passes
objects on unchanged.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import ApiClient, Configuration

from messagestore_operator.kube.objects import MANAGER, ApiObject
from messagestore_operator.kube.ratelimit import TokenBucket

JSON = "application/json"
METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
_REFUSED = (400, 403, 413, 422)
PAGE = 100
"""Objects per page of a list: so many are in memory unreduced at once, if they are not large."""
LARGEST_ANSWER = 16 << 20
"""Bytes of the largest page that is read; anybody may make an object of more than 1 MB."""
_OVERLOADED = (429, 503)
_TRIES = 5
_LONGEST_PAUSE = 30.0
_LIST_TRIES = 5
_WATCH_SECONDS = 300
"""After this time the API server ends a watch, so that a dead connection is noticed."""
Parameters = Mapping[str, str | int | bool]
Observer = Callable[[str, int], None]


class ApiError(Exception):
    """The API server refused a request, or could not be asked.

    Attributes:
        status: the HTTP status; 0 if there was no answer.
        reason: Kubernetes' constant, such as AlreadyExists.
        message: the server's message.
    """

    def __init__(self, method: str, path: str, status: int, reason: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status or 'no answer'} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def refused(self) -> bool:
        """Whether the server refused the request, so that it had no effect; False if it may still take effect."""
        return self.status in _REFUSED or "admission webhook" in self.message or "calling webhook" in self.message


class NotFoundError(ApiError):
    """The object or its kind doesn't exist."""


class ConflictError(ApiError):
    """Another client changed the object first: read it again."""


class AlreadyExistsError(ConflictError):
    """An object of that name exists already."""


class ForbiddenError(ApiError):
    """The operator's own roles, a quota or an admission rule don't allow it."""


class InvalidError(ApiError):
    """The object is invalid; a retry won't help."""


class GoneError(ApiError):
    """A list took so long that the API server no longer has the version that it started with.

    Attributes:
        go_on: the token that continues it with the present objects; empty if it must start again.
    """

    go_on = ""


class TooLargeError(ApiError):
    """The answer has more bytes than are read: ask for less."""


class KubeClient:
    """Requests to the API server.

    Args:
        api: the official client, with its connection.
        limit: the rate that all requests share; None for requests that must not wait, such as a leader's renewals.
        timeout: of one request, in seconds.
        observe: receives the method and the status of each answer, 0 if there was none.
    """

    def __init__(
        self,
        api: ApiClient,
        limit: TokenBucket | None = None,
        timeout: float = 30,
        observe: Observer = lambda method, status: None,
    ) -> None:
        self._api = api
        self._limit = limit
        self._timeout = timeout
        self._observe = observe

    def unlimited(self, timeout: float) -> KubeClient:
        """The same connection without the shared rate, for requests that must not wait."""
        return KubeClient(self._api, None, timeout, self._observe)

    async def get(self, path: str) -> ApiObject:
        """Read an object.

        Raises:
            NotFoundError: it doesn't exist.
            ApiError: anything else.
        """
        return await self._request("GET", path)

    async def find(self, path: str) -> ApiObject | None:
        """Read an object that may not exist."""
        try:
            return await self.get(path)
        except NotFoundError:
            return None

    async def find_metadata(self, path: str) -> ApiObject | None:
        """Read only the metadata of an object that may not exist; the server sends nothing else."""
        try:
            return await self._request("GET", path, accept=METADATA)
        except NotFoundError:
            return None

    async def items(self, path: str, selector: str = "", accept: str = JSON) -> AsyncIterator[ApiObject]:
        """The objects of a collection, page by page, each with kind and version as from a watch.

        If the list has to start again, an object may come twice. If a page is too large, this and the following pages
        are smaller.

        Args:
            accept: with ``METADATA_LIST``, the server sends only metadata, as objects of kind PartialObjectMetadata.
        """
        first: Parameters = {"labelSelector": selector} if selector else {}
        query, tries, size = first, 1, PAGE
        while True:
            try:
                page = await self._request("GET", path, {**query, "limit": size}, accept=accept)
            except TooLargeError:
                if size == 1:
                    raise
                size //= 2
                continue
            except GoneError as error:
                if tries == _LIST_TRIES:
                    raise
                tries += 1
                query = {**first, **({"continue": error.go_on} if error.go_on else {})}
                continue
            kind = {"apiVersion": page["apiVersion"], "kind": str(page["kind"]).removesuffix("List")}
            for item in page.get("items") or []:
                yield {**kind, **item}
            if not (more := (page.get("metadata") or {}).get("continue")):
                return
            query = {**first, "continue": more}

    async def watch(self, path: str, selector: str, version: str = "") -> AsyncIterator[tuple[str, ApiObject]]:
        """Changes of a collection, each with its type and the object's metadata; the server sends nothing else.

        Args:
            version: changes after this one, BOOKMARK for newer versions among them; without, all objects come first.

        Raises:
            GoneError: the server doesn't have the changes since the version any more.
            ApiError: anything else.
        """
        query: dict[str, str | int | bool] = {"watch": True, "allowWatchBookmarks": True, "labelSelector": selector}
        query |= {"timeoutSeconds": _WATCH_SECONDS, **({"resourceVersion": version} if version else {})}
        if self._limit is not None:
            await self._limit.acquire()
        try:
            answer = await self._ask("GET", path, query, None, JSON, METADATA, _WATCH_SECONDS + self._timeout)
            self._observe("GET", answer.status)
            try:
                if answer.status >= 300:
                    content = await _content(answer.content) or b""
                    raise _refusal("GET", path, answer.status, content.decode(errors="replace"))
                async for line in _lines(answer.content, path):
                    yield _event(path, line)
            finally:
                answer.close()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise _unreachable("GET", path, error) from error

    async def create(self, collection: str, body: ApiObject) -> ApiObject:
        """Create an object.

        Raises:
            AlreadyExistsError: there is one of that name.
            InvalidError: its fields are wrong, or unknown to the server.
        """
        return await self._request("POST", collection, _STRICT, body)

    async def replace(self, path: str, body: ApiObject) -> ApiObject:
        """Replace an object; if the body has a resourceVersion, only if that is still the newest.

        Raises:
            ConflictError: it has changed since.
        """
        return await self._request("PUT", path, _STRICT, body)

    async def json_patch(self, path: str, operations: list[dict[str, Any]]) -> ApiObject:
        """Change parts of an object, all or none; a failed test operation raises InvalidError."""
        return await self._request("PATCH", path, _MANAGER, operations, JSON_PATCH)

    async def merge_patch(self, path: str, body: ApiObject) -> ApiObject:
        """Change the fields of the body; lists are replaced whole."""
        return await self._request("PATCH", path, _MANAGER, body, MERGE_PATCH)

    async def delete(self, path: str, uid: str | None = None, version: str | None = None) -> bool:
        """Delete an object with all that it owns; False if it didn't exist.

        Args:
            uid: deletes only the object with this uid, not a later one of the same name.
            version: deletes it only if it still has this resource version.

        Raises:
            ConflictError: there is one of that name with another uid, or it has changed.
        """
        wanted = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        preconditions = {"preconditions": wanted} if wanted else {}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background", **preconditions}
        try:
            await self._request("DELETE", path, body=options)
        except NotFoundError:
            return False
        return True

    async def _request(
        self,
        method: str,
        path: str,
        query: Parameters | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> ApiObject:
        for _ in range(_TRIES):
            if self._limit is not None:
                await self._limit.acquire()
            try:
                status, text, pause = await self._send(method, path, query or {}, body, content_type, accept)
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                self._observe(method, 0)
                raise _unreachable(method, path, error) from error
            self._observe(method, status)
            if status not in _OVERLOADED or pause is None:
                break
            await self._hold_back(min(pause, _LONGEST_PAUSE))
        if status >= 300:
            raise _refusal(method, path, status, text)
        if not (answer := _parse(text)):
            raise ApiError(method, path, 0, "Unreachable", f"the answer is no JSON object: {text[:500]}")
        return answer

    async def _hold_back(self, seconds: float) -> None:
        """Pause all requests for as long as the API server asks: it would refuse the others, too."""
        if self._limit is None:
            await asyncio.sleep(seconds)
        else:
            self._limit.pause(seconds)

    async def _send(
        self, method: str, path: str, query: Parameters, body: Any, content_type: str, accept: str
    ) -> tuple[int, str, float | None]:
        """The status, the text, and the seconds that the API server asks to wait before another try."""
        answer = await self._ask(method, path, query, body, content_type, accept, self._timeout)
        content = await _content(answer.content)
        if content is None:
            answer.close()
            said = f"the answer has more than {LARGEST_ANSWER} bytes"
            raise TooLargeError(method, path, answer.status, "TooLarge", said)
        text = content.decode(errors="replace")
        wanted = str(answer.headers.get("Retry-After") or "")
        return answer.status, text, float(wanted) if wanted.isdecimal() else None

    async def _ask(
        self, method: str, path: str, query: Parameters, body: Any, content_type: str, accept: str, seconds: float
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": MANAGER}
        await self._api.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        url = self._api.configuration.host + path + _query_text(query)
        rest: Any = self._api.rest_client
        timeout = aiohttp.ClientTimeout(total=seconds)
        answer = await rest.request(method, url, headers=headers, body=body, _request_timeout=timeout)
        return cast(aiohttp.ClientResponse, answer.response)


_MANAGER: Parameters = {"fieldManager": MANAGER}
_STRICT: Parameters = {**_MANAGER, "fieldValidation": "Strict"}
_BY_STATUS = {
    400: InvalidError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    410: GoneError,
    422: InvalidError,
}


async def _content(stream: aiohttp.StreamReader) -> bytes | None:
    """The bytes of an answer; None if there are too many, of which the rest is not read."""
    content = bytearray()
    async for part in stream.iter_any():
        content += part
        if len(content) > LARGEST_ANSWER:
            return None
    return bytes(content)


async def _lines(stream: aiohttp.StreamReader, path: str) -> AsyncIterator[bytes]:
    """The lines of a watch, one at a time."""
    rest = bytearray()
    async for part in stream.iter_any():
        *whole, last = part.split(b"\n")
        for line in whole:
            yield bytes(rest + line)
            rest.clear()
        rest += last
        if len(rest) > LARGEST_ANSWER:
            raise TooLargeError("GET", path, 200, "TooLarge", f"a change has more than {LARGEST_ANSWER} bytes")


def _event(path: str, line: bytes) -> tuple[str, ApiObject]:
    """The type and the object of a watch's line."""
    event = _parse(line.decode(errors="replace"))
    document = event.get("object") or {}
    if event.get("type") == "ERROR":
        raise _refusal("GET", path, int(document.get("code") or 0), json.dumps(document))
    return str(event.get("type")), document


def _unreachable(method: str, path: str, error: Exception) -> ApiError:
    # Some of these have no message.
    return ApiError(method, path, 0, "Unreachable", str(error) or type(error).__name__)


def _query_text(query: Parameters) -> str:
    if not query:
        return ""
    return "?" + urlencode({name: str(value).lower() if value is True else value for name, value in query.items()})


def _refusal(method: str, path: str, status: int, text: str) -> ApiError:
    answer = _parse(text)
    reason, message = str(answer.get("reason", "")), str(answer.get("message", text[:500]))
    kind = AlreadyExistsError if reason == "AlreadyExists" else _BY_STATUS.get(status, ApiError)
    refusal = kind(method, path, status, reason, message)
    if isinstance(refusal, GoneError):
        refusal.go_on = str((answer.get("metadata") or {}).get("continue") or "")
    return refusal


def _parse(text: str) -> ApiObject:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


@asynccontextmanager
async def connect(
    configuration: Configuration, limit: TokenBucket | None = None, observe: Observer = lambda method, status: None
) -> AsyncIterator[KubeClient]:
    """A client, closed at the end of the block."""
    api: Any = ApiClient(configuration=configuration)
    try:
        yield KubeClient(api, limit, observe=observe)
    finally:
        await api.close()
