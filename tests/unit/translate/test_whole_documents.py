"""One whole run document of each kind, as a run of another release may read it."""

import json
import os
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from messagestore_core.contract.run_document import DeleteTask, MaintainTask, RunDocument
from messagestore_operator.api import MessageStream, ReplayJob, RetentionPolicy, parse_resource
from messagestore_operator.translate.common import holds_of
from messagestore_operator.translate.ingest import ingest_document
from messagestore_operator.translate.purge import erase_document, purge_document
from messagestore_operator.translate.replay import replay_document
from support.resources import (
    deleting_policy,
    redeliveries,
    redrive,
    replay_by_routes,
    replay_to_files,
    replay_to_kafka,
    replay_with_tokens,
    scrubbing_policy,
    smallest_stream,
    stream_from_files,
    stream_from_kafka,
    stream_of_shapes,
    stream_of_text,
    subscriptions,
)

RENEW = "RENEW_SNAPSHOTS"
FILE = Path(__file__).parent / "whole_documents.json"
AT = datetime(2026, 4, 6, tzinfo=UTC)


def _stream(document: dict[str, Any]) -> MessageStream:
    stream = parse_resource(document)
    assert isinstance(stream, MessageStream)
    return stream


def _purge(policy: dict[str, Any], stream: MessageStream) -> RunDocument:
    return purge_document(RetentionPolicy.model_validate(policy), stream, "run", AT)


def _replay(job: dict[str, Any], stream: MessageStream, to: MessageStream | None = None) -> RunDocument:
    return replay_document(ReplayJob.model_validate(job), stream, to, "run", AT)


def _odd_forms() -> tuple[dict[str, Any], dict[str, Any]]:
    """A policy and a replay whose durations, sizes and times are not in the shortest form."""
    policy, job = deepcopy(deleting_policy()), deepcopy(replay_to_files())
    rules = policy["spec"]["rules"]
    rules[0] |= {"maxAge": "PT36H0.5S", "match": {"types": ["a"]}}
    rules[2]["maxBytes"] = "1.5Mi"
    job["spec"]["select"]["timeWindow"] = {"from": "2026-03-01T06:30:00.123456789Z"}
    job["spec"]["select"]["where"] = ""
    return policy, job


def _with_reset(job: dict[str, Any]) -> dict[str, Any]:
    annotations = {"messagestore.dev/reset-to": "2026-01-05T08:00:00Z"}
    return {**job, "metadata": {**job["metadata"], "annotations": annotations}}


def _documents() -> Iterator[tuple[str, RunDocument]]:
    files = _stream(stream_from_files())
    for stream in (stream_from_files(), stream_from_kafka(), stream_of_text(), stream_of_shapes(), smallest_stream()):
        yield f"ingest {stream['metadata']['name']}", ingest_document(_stream(stream), "run", AT)
    yield "purge", _purge(deleting_policy(), files)
    yield "purge that scrubs", _purge(scrubbing_policy(), files)
    yield "erase", erase_document(RetentionPolicy.model_validate(deleting_policy()), files, "run", AT)
    yield "replay to files", _replay(replay_to_files(), files)
    yield "replay to Kafka", _replay(replay_to_kafka(), files)
    yield "replay that puts a topic back", _replay(replay_with_tokens(), files)
    yield "replay into a stream", _replay(redrive(), files, files)
    yield "replay in rounds", _replay(redeliveries()[0], files)
    yield "subscription", _replay(_with_reset(subscriptions()[1]), files)
    yield "routes", _replay(replay_by_routes(), files, files)
    policy, job = _odd_forms()
    yield "purge, odd forms", _purge(policy, _stream(smallest_stream()))
    yield "replay, odd forms", _replay(job, _stream(smallest_stream()))
    run = ingest_document(files, "run", AT)
    yield "maintain", run.model_copy(update={"task": MaintainTask(oldest_replay=AT)})
    yield "delete", run.model_copy(update={"task": DeleteTask(holds=holds_of(files))})


def _json(document: RunDocument) -> Any:
    return document.model_dump(mode="json", by_alias=True)


def test_documents_stay_as_they_are() -> None:
    """Renew them with: RENEW_SNAPSHOTS=1 .venv/bin/python -m pytest tests/unit/translate/test_whole_documents.py."""
    made = {name: _json(document) for name, document in _documents()}
    text = json.dumps(made, indent=1) + "\n"
    if RENEW in os.environ:
        FILE.write_text(text, encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == text, f"if that is as it should be, run again with {RENEW}=1"


@pytest.mark.parametrize("name", [name for name, _ in _documents()])
def test_a_run_reads_what_was_written(name: str) -> None:
    written = json.loads(FILE.read_text(encoding="utf-8"))[name]
    read = RunDocument.model_validate(written)
    assert _json(read) == written
    assert read == dict(_documents())[name]
