"""A replay to files: objects whose names sort in replay order, and last a manifest."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from typing_extensions import override

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.replay import ReplayOutcome, ReplayTask
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.objects import LARGEST_DOCUMENT, join, parsed_document
from messagestore_jobs.context import Run
from messagestore_jobs.frozen.replays import Chunk, EndedFiles, Format, Frozen, Part, ReplayState
from messagestore_jobs.native import LineBreaks
from messagestore_jobs.replay.chunks import Delivery, StagedObjects

MANIFEST = "manifest.json"
_FORMAT_VERSION = 1
_AT_ONCE = 16
"""How many objects are moved at once; each takes two small requests to object storage."""
_SUFFIXES: dict[Format, str] = {"JSONLines": "jsonl", "JSON": "json"}


class FilesDelivery(Delivery):
    """Sends to files. The replay's state is in a folder beside the objects, which their readers ignore."""

    def __init__(self, run: Run, job_id: str, destination: FilesDestination) -> None:
        task = run.document.task
        assert isinstance(task, ReplayTask)
        self._store, self._document, self._task, self._job_id = run.store, run.document, task, job_id
        self._own = f"_replay-{job_id}"
        self.objects = StagedObjects(destination.uri, run.store.storage)
        self.state = ReplayState(run.store, self.objects.below(self._own))
        self.staging = f"{self._own}/staging"
        self.form: Format = destination.format
        self._envelope = destination.envelope
        self.line_breaks: LineBreaks = "Space" if destination.format == "JSONLines" else "Keep"
        # Without a manifest nobody may rely on the objects.
        self.takes_back = True
        self._manifest_name, self._first_part = MANIFEST, 0
        self._objects = 0
        """How many objects there are, if no manifest says so."""
        self._written: dict[str, Any] = {}
        """The manifest that was written just now: whoever reads it may remove it at once."""

    @override
    def ended(self) -> ReplayOutcome | None:
        """Read from this replay's manifest, or from its state, if whoever read the manifest has removed all since."""
        manifest = self._manifest()
        if manifest.get("job") == self._job_id and "outcome" in manifest:
            self.state.remove()
            return parsed_document(
                ReplayOutcome, json.dumps(manifest["outcome"]).encode(), join(self.objects.uri, self._manifest_name)
            )
        ending = self.state.ending()
        return self._taken_up(ending) if ending is not None and self._was_read(ending) else None

    def _was_read(self, ending: EndedFiles) -> bool:
        """Whether all objects are gone for which a manifest was to be written, as they were read."""
        chunks = self.state.chunks()
        if not chunks:
            # The state is removed after the manifest was written.
            return ending.objects > 0
        parts = [part for chunk in chunks for part in chunk.parts]
        all_gone = bool(parts) and len(self._gone(parts)) == len(parts)
        return all_gone and not any(self.objects.exists(part.staged) for part in parts)

    def _taken_up(self, ended: EndedFiles) -> ReplayOutcome:
        """What was noted of an ended replay, whose state is removed."""
        self._objects = ended.objects
        self.state.remove()
        return ended.outcome()

    @override
    def is_of_another(self) -> bool:
        """The manifest of an earlier release has only the task."""
        manifest, task = self._manifest(), self._task
        if manifest.get("job") != self._job_id:
            return self.state.is_of_another(task, self._document.table.uri)
        known = manifest.get("asked")
        return manifest.get("task") != _sent(task) if known is None else bool(known != task.request_digest)

    def check(self) -> str | None:
        """Refuse a folder with anything but this replay's state.

        Raises:
            RunFailedError: there is something else; nothing was touched.
        """
        names = [name for name in self.objects.names() if name != f"{self._own}/"]
        if names:
            holds = f"what replay {job} has sent" if (job := self._manifest().get("job")) else names[0]
            raise RunFailedError(
                "DestinationNotEmpty",
                f"{self.objects.uri} is not empty (it holds {str(holds)[:300]}) and replay {self._job_id} has written "
                "nothing there; name an empty folder in spec.destination.files.uri",
            )
        return None

    def _check_objects(self, parts: list[Part]) -> None:
        if gone := self._gone(parts):
            raise RunFailedError(
                "ObjectsMissing",
                f"{len(gone)} of {len(parts)} objects that this replay has put into {self.objects.uri} are not there "
                f"any more, {gone[0]} among them; make a new replay to another folder, and read it once it has a "
                f"{MANIFEST}",
            )

    def _gone(self, parts: list[Part]) -> list[str]:
        names = set(self.objects.names())
        return [part.name for part in parts if part.name not in names]

    def _manifest(self) -> dict[str, Any]:
        """What the folder's manifest says; empty without one."""
        return self._written or self._read_manifest(self._manifest_name)

    def _read_manifest(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads(self.objects.read(name, LARGEST_DOCUMENT) or b"{}")
        except (ValueError, RecursionError):
            return {}
        return content if isinstance(content, dict) else {}

    @override
    def part_name(self, number: int) -> str:
        """Names sort in replay order."""
        return f"part-{self._first_part + number:08d}.{_SUFFIXES[self.form]}"

    def deliver(self, chunk: Chunk, first: int, unchanged: Callable[[], bool]) -> bool:
        """Move the chunk's objects to their final names, several at once, as object storage copies each."""
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return all(list(pool.map(lambda part: self._take_out(part, unchanged), chunk.parts)))

    def _take_out(self, part: Part, unchanged: Callable[[], bool]) -> bool:
        with self._store.step("replay-object"):
            if not unchanged():
                return False
            self.objects.move(part.staged, part.name)
        return True

    def end(
        self, frozen: Frozen, chunks: list[Chunk], outcome: ReplayOutcome, unchanged: Callable[[], bool]
    ) -> ReplayOutcome | None:
        """Write the manifest, then remove the replay's state.

        Raises:
            RunFailedError: somebody has removed objects meanwhile, so that the manifest would name what is not there.
        """
        parts = [part for chunk in chunks for part in chunk.parts]
        self._check_objects(parts)
        ended = EndedFiles(**dict(outcome), objects=len(parts))
        self.state.note_ending(ended)
        content: dict[str, Any] = {
            "formatVersion": _FORMAT_VERSION,
            "job": self._job_id,
            "asked": self._task.request_digest,
            "resource": self._document.resource.model_dump(mode="json", by_alias=True, exclude={"requested_by"}),
            "table": self._document.table.uri,
            "frozenAt": frozen.at.isoformat().replace("+00:00", "Z"),
            "task": _sent(self._task),
            "format": self.form,
            **({} if self._envelope == "Native" else {"envelope": self._envelope}),
            "objects": [{"name": part.name, "messages": part.messages, "bytes": part.bytes} for part in parts],
            "outcome": outcome.model_dump(mode="json", by_alias=True),
        }
        with self._store.step("replay-manifest"):
            if not unchanged():
                return None
            self.objects.write(self._manifest_name, json.dumps(content, indent=2).encode() + b"\n")
            self._written = content
        self._note_end(ended)
        self.state.remove()
        return outcome

    def _note_end(self, ended: EndedFiles) -> None:
        """Note what the manifest says where its readers don't remove it, if a later run asks for it."""


def _sent(task: ReplayTask) -> dict[str, Any]:
    """What a task sends, for people."""
    what = {"origin", "select", "order", "mark_headers"}
    return task.model_dump(mode="json", by_alias=True, include=what, exclude_defaults=True)
