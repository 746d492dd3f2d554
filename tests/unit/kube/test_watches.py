"""The watch of metadata goes on where the last one ended, whatever ended it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from messagestore_operator.kube import sync as watches
from messagestore_operator.kube.client import ApiError, GoneError
from messagestore_operator.kube.objects import CONFIG_MAPS
from messagestore_operator.kube.sync import watched


class _Server:
    """Ends each watch with an error, or None if the time was over."""

    def __init__(self, *ends: ApiError | None) -> None:
        self._ends = list(ends)
        self.versions: list[str] = []

    async def watch(self, path: str, selector: str, version: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        self.versions.append(version)
        number = 10 * len(self.versions)
        for kind in ("MODIFIED", "BOOKMARK"):
            number += 1
            yield kind, {"kind": "PartialObjectMetadata", "metadata": {"resourceVersion": str(number)}}
        if not self._ends:
            await asyncio.sleep(60)
        if (error := self._ends.pop(0)) is not None:
            raise error


def test_a_watch_goes_on_where_the_last_one_ended_and_from_the_start_if_that_is_too_long_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(watches, "_PAUSE_SECONDS", (0.001, 0.002))
    gone = GoneError("GET", "", 410, "Expired", "too old")
    server: Any = _Server(None, ApiError("GET", "", 0, "Unreachable", "refused"), gone)
    seen: list[tuple[str | None, str, str]] = []

    async def watch() -> None:
        def note(kind: str | None, document: dict[str, Any]) -> None:
            seen.append((kind, document["kind"], document["metadata"]["resourceVersion"]))

        with suppress(TimeoutError):
            await asyncio.wait_for(watched(server, CONFIG_MAPS, None, note), 0.5)

    asyncio.run(watch())
    assert server.versions == ["", "12", "22", ""]
    assert seen == [("MODIFIED", "ConfigMap", str(number)) for number in (11, 21, 31, 41)]
