"""`messagestore run` in this process, with the Spark session that all tests share."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession
from typer.testing import CliRunner

import messagestore_operator.local.spark
from messagestore_operator.cli.main import app

AT = "2026-04-06T00:00:00Z"
EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO_FOLDER = "/tmp/messagestore-demo"

Document = dict[str, Any]


@dataclass(frozen=True)
class Done:
    """A run's output and exit code."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def items(self) -> dict[str, Document]:
        """The printed resources, by kind and name."""
        return {f"{item['kind']}/{item['metadata']['name']}": item for item in json.loads(self.stdout)["items"]}

    def status(self, key: str) -> Document:
        """The status of one resource."""
        return self.items[key]["status"]

    def ready(self, key: str) -> tuple[str, str]:
        """Status and reason of condition Ready."""
        (found,) = [one for one in self.status(key)["conditions"] if one["type"] == "Ready"]
        return found["status"], found["reason"]


class SharedSpark:
    """Replaces the session that a local run starts and ends."""

    given: SparkSession | None = None

    def __init__(self, cores: int, memory: str, *, verbose: bool) -> None:
        self.started = True

    def session(self, *, little: bool) -> SparkSession:
        assert self.given is not None
        return self.given

    def abandon(self) -> None:
        raise AssertionError("nobody interrupts a test")

    def close(self) -> None:
        """Keep the session for the next test."""


class LocalRuns:
    """Runs manifests, which it writes to a folder first."""

    def __init__(self, folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        monkeypatch.setattr(SharedSpark, "given", spark)
        monkeypatch.setattr(messagestore_operator.local.spark, "LocalSpark", SharedSpark)

    def __call__(self, documents: Iterable[Document], *options: str) -> Done:
        """Run documents."""
        text = yaml.safe_dump_all(documents, sort_keys=False)
        return self.run_text(text, *options)

    def run_text(self, text: str, *options: str) -> Done:
        """Run the text of a manifest."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "manifests.yaml").write_text(text)
        return self.run_files(self.folder, *options)

    def run_files(self, path: Path, *options: str) -> Done:
        """Run the manifests at a path."""
        plain = [] if "-o" in options else ["-o", "json"]
        timed = [] if "--at" in options else ["--at", AT]
        result = CliRunner().invoke(app, ["run", "-f", str(path), *plain, *timed, *options])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)


def resource(kind: str, name: str, spec: Document, **metadata: Any) -> Document:
    """A manifest."""
    return {
        "apiVersion": "messagestore.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def stream(folder: Path, name: str = "orders", **spec: Any) -> Document:
    """A stream that reads `folder/landing` into `folder/name`."""
    given = {
        "table": {"uri": f"file://{folder}/{name}"},
        "source": {"files": {"uri": f"file://{folder}/landing"}},
        "trigger": {"manual": {}},
    }
    return resource("MessageStream", name, {**given, **spec})


def policy(name: str = "retention", streams: Iterable[str] = ("orders",), **spec: Any) -> Document:
    """A policy that by default enforces a maximum age of 30 days."""
    given = {
        "streamRefs": [{"name": one} for one in streams],
        "trigger": {"manual": {}},
        "mode": "Enforce",
        "rules": [{"name": "old", "maxAge": "P30D"}],
    }
    return resource("RetentionPolicy", name, {**given, **spec})


def replay(folder: Path, name: str = "again", of: str = "orders", **spec: Any) -> Document:
    """A replay to `folder/name`."""
    given = {"streamRef": {"name": of}, "destination": {"files": {"uri": f"file://{folder}/{name}"}}}
    return resource("ReplayJob", name, {**given, **spec})


def arrive(folder: Path, file: str, records: Iterable[Document | str]) -> None:
    """Put records, or lines unchanged, into the landing folder."""
    landing = folder / "landing"
    landing.mkdir(exist_ok=True)
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    (landing / file).write_text("".join(f"{line}\n" for line in lines))


def record(number: int, **fields: Any) -> Document:
    """A Native record; odd numbers are from March, even ones from April."""
    month = 3 if number % 2 else 4
    return {
        "messageId": f"m-{number}",
        "streamName": f"order-{number % 3}",
        "type": "Placed",
        "time": f"2026-{month:02d}-01T00:00:00Z",
        "payload": {"n": number},
        **fields,
    }


def tree(folder: Path) -> dict[str, bytes]:
    """Everything below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def render(example: str, work: Path) -> str:
    """The manifests of an example (a folder or a file of it), with its data copied below `work`."""
    path = EXAMPLES / example
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    name = Path(example).parts[0]
    # In the order of their names, as the order of writing is the order of arrival.
    for file in sorted((EXAMPLES / name).glob("*/*.json*")):
        copy = work / name / file.parent.name / file.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        # A file that is written again is a new one for a stream, which would read it again.
        if not copy.exists():
            copy.write_bytes(file.read_bytes())
    return "\n---\n".join(file.read_text() for file in files).replace(DEMO_FOLDER, str(work))


def lines(folder: Path) -> list[str]:
    """The lines of a folder's files of JSON lines, in the order of their names."""
    return [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
