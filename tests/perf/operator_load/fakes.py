"""Fakes of the Spark operator, the kubelet, drivers and the garbage collector, in their own process.

``python -m tests.perf.operator_load.fakes PORT CERTIFICATE SECONDS RECORD``: drives every SparkApplication from
submitted to completed, with a driver's pod and its reports, in SECONDS seconds. It ends on SIGTERM, and leaves a record
of what it saw in file RECORD.
"""

import asyncio
import json
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import aiohttp
from tests.perf.operator_load import written

from support import sparkoperator
from support.apiserver import TOKEN
from support.outcomes import is_continuous, outcome

_ALL = f"/apis/{sparkoperator.GROUP}/v1beta2/{sparkoperator.PLURAL}"
_JSON = "application/json"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_AWAY = (401, 429, 500, 502, 503, 504)
_BATCH_SECONDS = 10
"""The time between two reports of a continuous run."""


@dataclass
class Record:
    """How many runs of each kind have started and ended, and what should never happen."""

    started: dict[str, int] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    ingests: dict[str, int] = field(default_factory=dict)
    """Ended ingests, by table."""
    runs: dict[str, str] = field(default_factory=dict)
    """All runs, with their kinds."""
    writing: dict[str, str] = field(default_factory=dict)
    """The run that writes to each table now."""


class Fakes:
    """All fakes, for all namespaces.

    Args:
        session: reaches the API server as an administrator.
        seconds: how long a driver runs.
    """

    def __init__(self, session: aiohttp.ClientSession, seconds: float) -> None:
        self._session = session
        self._seconds = seconds
        self._names: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.record = Record()

    async def serve(self) -> None:
        """Drive new applications and collect deleted ones, for ever."""
        async for happened, metadata in self._watch():
            if happened in ("ADDED", "DELETED"):
                work = self._drive if happened == "ADDED" else self._collect
                task = asyncio.create_task(self._noting(metadata["name"], work(metadata)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _noting(self, name: str, work: Any) -> None:
        try:
            await work
        except Exception as error:
            self.record.problems.append(f"{name}: {error!r}")

    async def _watch(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        known: dict[str, dict[str, Any]] = {}
        while True:
            listed = await self._ask("GET", _ALL, accept=_METADATA_LIST)
            there = {item["metadata"]["uid"]: item["metadata"] for item in listed["items"] or []}
            for uid in [uid for uid in known if uid not in there]:
                yield "DELETED", known.pop(uid)
            for uid in [uid for uid in there if uid not in known]:
                known[uid] = there[uid]
                yield "ADDED", there[uid]
            with suppress(aiohttp.ClientError, OSError, ValueError):
                async for happened, metadata in self._events(listed["metadata"]["resourceVersion"]):
                    if happened == "DELETED":
                        known.pop(metadata["uid"], None)
                    else:
                        known[metadata["uid"]] = metadata
                    yield happened, metadata

    async def _events(self, version: str) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        timeout = aiohttp.ClientTimeout(total=None)
        address = f"{_ALL}?watch=1&resourceVersion={version}"
        async with self._session.get(address, headers={"Accept": _METADATA}, timeout=timeout) as answer:
            answer.raise_for_status()
            async for line in answer.content:
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                yield event["type"], event["object"]["metadata"]

    async def _drive(self, application: dict[str, Any]) -> None:
        namespace, name = application["namespace"], application["name"]
        if (namespace, name) in self._names:
            self.record.problems.append(f"{name} was launched twice")
        self._names.add((namespace, name))
        # A pod waits for its ConfigMap, which comes after the application.
        while "data" not in (config_map := await self._ask("GET", _core(namespace, "configmaps", name), fine=(404,))):
            await asyncio.sleep(0.1)
        document = json.loads(config_map["data"]["run.json"])
        kind, table = document["task"]["kind"], document["table"]["uri"]
        _count(self.record.started, kind)
        self.record.runs[name] = kind
        other = self.record.writing.setdefault(table, name)
        if other != name:
            self.record.problems.append(f"{name} and {other} write to one table")
        last_words = await self._run(application, document)
        self.record.writing.pop(table)
        await self._set_pod(application, "Succeeded", last_words)
        await self._set_state(application, "COMPLETED")
        _count(self.record.ended, kind)

    async def _run(self, application: dict[str, Any], document: dict[str, Any]) -> str:
        """Submit, run and report; return the last report."""
        namespace, name = application["namespace"], application["name"]
        await self._set_state(application, "SUBMITTED")
        whole = await self._ask("GET", sparkoperator.path(namespace, name))
        await self._ask("POST", _core(namespace, "pods"), written.driver_pod(whole), fine=(409,))
        await self._set_pod(application, "Running")
        await self._set_state(application, "RUNNING")
        started = _now()
        for sequence in (1, 2):
            await self._report(namespace, name, {"sequence": sequence, "state": "Running", "startedAt": started})
            await asyncio.sleep(self._seconds / 2)
        sequence = await self._go_on(application, document, started) if is_continuous(document) else 2
        end = {"sequence": sequence + 1, "state": "Succeeded", "startedAt": started, "finishedAt": _now()}
        config_map = await self._report(namespace, name, {**end, "outcome": self._outcome(document)})
        return str(config_map["data"]["report.json"])

    async def _go_on(self, application: dict[str, Any], document: dict[str, Any], started: str) -> int:
        """Report a batch again and again until the run must stop; return the number of the last report."""
        for sequence in count(3):
            outcome = self._outcome(document)
            report = {"sequence": sequence, "state": "Running", "startedAt": started, "outcome": outcome}
            config_map = await self._report(application["namespace"], application["name"], report)
            if json.loads(config_map["data"].get("control.json", "{}")).get("stop"):
                return sequence
            await asyncio.sleep(_BATCH_SECONDS)
        raise AssertionError

    def _outcome(self, document: dict[str, Any]) -> dict[str, Any]:
        """A run's outcome; an ingest's has the totals of its table."""
        found = outcome(document, _now())
        if found["kind"] == "ingest":
            _count(self.record.ingests, document["table"]["uri"])
            times = self.record.ingests[document["table"]["uri"]]
            found["totals"] = {name: times * number for name, number in found["counts"].items()}
            found["table"] = written.table(found["table"], document["table"]["epoch"], _now())
        return found

    async def _collect(self, application: dict[str, Any]) -> None:
        namespace, name = application["namespace"], application["name"]
        for path in (_core(namespace, "pods", f"{name}-driver"), _core(namespace, "configmaps", name)):
            # The operator may have deleted the ConfigMap of a missing application: a collector ignores that.
            await self._ask("DELETE", path, fine=(404,))

    async def _set_state(self, application: dict[str, Any], state: str) -> None:
        path = sparkoperator.path(application["namespace"], application["name"])
        await self._ask("PATCH", f"{path}/status", {"status": written.application_status(application, state)})

    async def _set_pod(self, application: dict[str, Any], phase: str, last_words: str | None = None) -> None:
        path = _core(application["namespace"], "pods", f"{application['name']}-driver")
        await self._ask("PATCH", f"{path}/status", {"status": written.pod_status(application, phase, last_words)})

    async def _report(self, namespace: str, name: str, report: dict[str, Any]) -> Any:
        text = json.dumps({"run": name, **report})
        return await self._ask("PATCH", _core(namespace, "configmaps", name), {"data": {"report.json": text}})

    async def _ask(
        self, method: str, path: str, body: Any = None, accept: str = _JSON, fine: tuple[int, ...] = ()
    ) -> Any:
        """Repeat a request until there is an answer; a repetition after a lost answer has no further effect."""
        content = "application/merge-patch+json" if method == "PATCH" else _JSON
        headers = {"Content-Type": content, "Accept": accept}
        while True:
            with suppress(aiohttp.ClientError, OSError, TimeoutError, ValueError):
                async with self._session.request(method, path, json=body, headers=headers) as answer:
                    found = await answer.json()
                    if answer.status not in _AWAY:
                        break
            await asyncio.sleep(0.2)
        if answer.status >= 300 and answer.status not in fine:
            raise RuntimeError(f"{method} {path}: {answer.status} {found.get('message')}")
        return found


def _count(tally: dict[str, int], kind: str) -> None:
    tally[kind] = tally.get(kind, 0) + 1


def _core(namespace: str, plural: str, name: str = "") -> str:
    collection = f"/api/v1/namespaces/{namespace}/{plural}"
    return f"{collection}/{name}" if name else collection


def _now() -> str:
    return datetime.now(UTC).isoformat()


async def _main(port: int, certificate: Path, seconds: float, record: Path) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    context = ssl.create_default_context(cafile=str(certificate))
    async with aiohttp.ClientSession(
        f"https://127.0.0.1:{port}",
        headers={"Authorization": f"Bearer {TOKEN}"},
        connector=aiohttp.TCPConnector(ssl=context, limit=32),
    ) as session:
        fakes = Fakes(session, seconds)
        serving = asyncio.create_task(fakes.serve())
        ending = asyncio.create_task(stop.wait())
        await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            fakes.record.problems.append(f"the watch ended: {serving.exception()!r}")
            await stop.wait()
        serving.cancel()
        record.write_text(json.dumps(asdict(fakes.record)))


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])))
