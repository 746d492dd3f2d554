"""One test's site in the cluster: a namespace, a bucket, and resources with their statuses."""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from hack import install
from kubernetes.client import ApiException
from pyarrow.fs import FileSelector
from urllib3.exceptions import HTTPError

from support.kind import POD_S3_ENDPOINT, WAIT_SECONDS, Cluster, Resource
from support.local_runs import resource
from support.waiting import wait_until

STREAM, POLICY, REPLAY = "messagestream", "retentionpolicy", "replayjob"
SECRET = "lake-credentials"
OPERATOR = (
    f"--namespace={install.OPERATOR_NAMESPACE}",
    f"--selector=app.kubernetes.io/instance={install.OPERATOR_RELEASE}",
)
"""The operator's pods, for kubectl."""
_BEAT_SECONDS = 1.0
_LONGEST_LINE = 400

Row = dict[str, Any]


@dataclass(frozen=True)
class Site:
    """A namespace with the restricted Pod Security Standard and the bucket's credentials, and the bucket."""

    cluster: Cluster
    namespace: str
    bucket: str

    def uri(self, path: str) -> str:
        """The URI of a folder of the bucket, for resources."""
        return f"s3a://{self.bucket}/{path}"

    def storage(self, secret: str = SECRET) -> Row:
        """The storage block with which pods reach the S3 server."""
        return {"endpoint": POD_S3_ENDPOINT, "pathStyleAccess": True, "credentialsSecretRef": {"name": secret}}

    def stream(self, name: str = "orders", **spec: Any) -> Resource:
        """A stream from `landing/<name>` to a store at `<name>`; it runs once, at once."""
        given = {
            "table": {"uri": self.uri(name)},
            "storage": self.storage(),
            "source": {"files": {"uri": self.uri(f"landing/{name}")}},
            "trigger": {"interval": "P1D"},
        }
        return resource("MessageStream", name, {**given, **spec}, namespace=self.namespace)

    def policy(self, name: str, *streams: str, **spec: Any) -> Resource:
        """A policy on streams that runs as soon as it exists."""
        given = {"streamRefs": [{"name": one} for one in streams], "trigger": {"manual": {}}, "mode": "Enforce"}
        asked = {"messagestore.dev/run-requested": "now"}
        return resource("RetentionPolicy", name, {**given, **spec}, namespace=self.namespace, annotations=asked)

    def replay(self, name: str, of: str, **spec: Any) -> Resource:
        """A replay to files at `<name>`."""
        destination = {"files": {"uri": self.uri(name), "storage": self.storage()}}
        given = {"streamRef": {"name": of}, "destination": destination, **spec}
        return resource("ReplayJob", name, given, namespace=self.namespace)

    def secret(self, name: str, access_key: str, secret_key: str) -> Resource:
        """Credentials for the bucket."""
        labels = {"messagestore.dev/use": "storage"}
        metadata = {"name": name, "namespace": self.namespace, "labels": labels}
        data = {"accessKey": access_key, "secretKey": secret_key}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data}

    def apply(self, *resources: Resource) -> None:
        """Create or change resources."""
        self.cluster.apply(*resources)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl in the namespace; raises CalledProcessError."""
        return self.cluster.kubectl("--namespace", self.namespace, *arguments)

    def delete(self, kind: str, name: str, *options: str) -> None:
        """Delete an object, without waiting until it is gone."""
        self.kubectl("delete", kind, name, "--ignore-not-found", "--wait=false", *options)

    def items(self, kind: str, *options: str) -> list[Resource]:
        """All objects of a kind in the namespace."""
        found: list[Resource] = json.loads(self.kubectl("get", kind, "--output", "json", *options))["items"]
        return found

    def find(self, kind: str, name: str) -> Resource | None:
        """An object; None if there is none, or while the API server does not answer."""
        try:
            return self.cluster.get(kind, name, self.namespace)
        except (ApiException, HTTPError):
            return None

    def status(self, kind: str, name: str) -> Row:
        """The status of a resource, empty before the first."""
        return (self.find(kind, name) or {}).get("status", {})

    def wait(self, kind: str, name: str, true: Callable[[Row], Any], what: str, seconds: float = WAIT_SECONDS) -> Row:
        """The status of a resource as soon as `true` accepts it; on failure, shows the namespace's state."""
        last: Row = {}

        def look() -> bool:
            nonlocal last
            last = self.status(kind, name)
            return bool(last) and bool(true(last))

        self.until(look, f"{kind} {name}: {what}", seconds, lambda: last)
        return last

    def condition(
        self, kind: str, name: str, of: str, status: str, reason: str | None = None, seconds: float = WAIT_SECONDS
    ) -> str:
        """The message of a condition as soon as it has a status and reason for the newest generation."""

        def true(found: Row) -> bool:
            condition = condition_of(found, of)
            return condition.get("status") == status and reason in (None, condition.get("reason"))

        return str(condition_of(self.wait(kind, name, true, f"{of}={status} {reason or ''}", seconds), of)["message"])

    def until(
        self,
        true: Callable[[], Any],
        what: str,
        seconds: float = WAIT_SECONDS,
        progress: Callable[[], Any] = lambda: None,
    ) -> Any:
        """The result of a check as soon as it is true; on failure, shows the namespace's state."""
        return wait_until(true, seconds, lambda: f"{what}\n{self.story()}", progress=progress, beat=_BEAT_SECONDS)

    def ran(self, kind: str, name: str, seconds: float = WAIT_SECONDS) -> Row:
        """The status after a run has ended and no other is in progress; fails unless it succeeded."""
        at_rest = self.wait(
            kind, name, lambda found: found.get("lastRun") and not found.get("currentRun"), "a run that ended", seconds
        )
        assert at_rest["lastRun"]["state"] == "Succeeded", f"{at_rest['lastRun']}\n{self.story()}"
        return at_rest

    def land(self, name: str, content: bytes) -> None:
        """Put a file into a stream's landing folder."""
        with self.cluster.s3.filesystem().open_output_stream(f"{self.bucket}/landing/{name}") as out:
            out.write(content)

    def s3_answers(self) -> bool:
        """Whether the S3 server answers here: a Service's addresses change a moment after its pod is ready."""
        try:
            self.cluster.s3.filesystem().get_file_info(self.bucket)
        except OSError:
            return False
        return True

    def read(self, path: str) -> bytes:
        """An object of the bucket."""
        content: bytes = self.cluster.s3.filesystem().open_input_stream(f"{self.bucket}/{path}").readall()
        return content

    def objects(self, path: str) -> list[str]:
        """The names of all objects below a folder, in order."""
        selector = FileSelector(f"{self.bucket}/{path}", recursive=True, allow_not_found=True)
        found = self.cluster.s3.filesystem().get_file_info(selector)
        return sorted(entry.path.removeprefix(f"{self.bucket}/") for entry in found if entry.is_file)

    def sent(self, path: str) -> list[Row]:
        """The messages that a replay has sent to files below a folder, in the order of the files' names."""
        parts = [name for name in self.objects(path) if name.endswith(".jsonl")]
        return [json.loads(line) for part in parts for line in self.read(part).splitlines()]

    def table(self, path: str) -> DeltaTable:
        """A Delta table of the bucket, read by delta-rs; raises if there is none yet."""
        return DeltaTable(f"s3://{self.bucket}/{path}", storage_options=self.cluster.s3.storage_options())

    def drivers(self) -> list[str]:
        """The driver pods that have not ended."""
        pods = self.items("pod", "--selector", "spark-role=driver")
        return [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]

    def story(self) -> str:
        """The namespace's state, with what a person would need to find the cause of a failure."""
        return "\n".join(self._chapters())

    def _chapters(self) -> Iterator[str]:
        kinds = f"{STREAM},{POLICY},{REPLAY}"
        columns = "NAME:.metadata.name,STATE:.status.applicationState.state,SAYS:.status.applicationState.errorMessage"
        yield from self._chapter("resources", "get", kinds, "--output", "yaml", last=120)
        yield from self._chapter("applications", "get", "sparkapplications", "--output", f"custom-columns={columns}")
        yield from self._chapter("pods", "get", "pods", "--output", "wide")
        yield from self._chapter("Events", "get", "events", "--sort-by=.lastTimestamp", last=25)
        try:
            drivers = [pod["metadata"]["name"] for pod in self.items("pod", "--selector", "spark-role=driver")]
        except subprocess.CalledProcessError:
            drivers = []
        for driver in drivers[-2:]:
            yield from self._chapter(f"driver {driver}", "logs", driver, "--tail=40")
        yield from self._chapter("the operator", "logs", *OPERATOR, "--tail=40", "--prefix")

    def _chapter(self, title: str, *arguments: str, last: int = 60) -> Iterator[str]:
        try:
            said = self.kubectl(*arguments)
        except subprocess.CalledProcessError as error:
            said = "\n".join(error.__notes__)
        yield f"--- {title}\n" + "\n".join(line[:_LONGEST_LINE] for line in said.splitlines()[-last:])


def condition_of(status: Row, of: str) -> Row:
    """A condition of a status; empty if it has none of that type."""
    return next((one for one in status.get("conditions", []) if one["type"] == of), {})


@contextmanager
def site(cluster: Cluster, name: str) -> Iterator[Site]:
    """A new site, deleted afterwards."""
    prefix = re.sub(r"[^a-z0-9]+", "-", name)[:20].strip("-")
    with cluster.bucket(prefix) as bucket, cluster.namespace(prefix) as namespace:
        made = Site(cluster, namespace, bucket)
        made.apply(made.secret(SECRET, cluster.s3.access_key, cluster.s3.secret_key))
        yield made
