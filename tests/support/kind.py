"""The cluster of `make cluster`, for tests.

The API server and the S3 server have ports on this machine's loopback, wherever the cluster runs. If it runs in its own
network namespace, a process of `make cluster` listens on loopback here and connects on loopback there
(hack/forward.py): no route, address or interface of this machine changes.

For manual access: `KUBECONFIG=$(python3 -m hack.cluster kubeconfig) kubectl get pods -A`.
"""

import base64
import functools
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack import install, kind, programs
from kubernetes import client, config, dynamic
from kubernetes.dynamic.exceptions import NotFoundError
from pyarrow.fs import FileInfo, FileSelector, FileType, S3FileSystem

from support.helm import CHART, helm
from support.waiting import wait_until

REPOSITORY = Path(__file__).parents[2]
VALUES = REPOSITORY / "tests" / "e2e" / "operator.yaml"
POD_S3_ENDPOINT = f"http://s3.{install.STORAGE_NAMESPACE}.svc:7070"
"""The S3 server's address for pods."""
RELEASE = (install.OPERATOR_RELEASE, "--kubeconfig", kind.kubeconfig(), "--namespace", install.OPERATOR_NAMESPACE)
"""The operator's release, for helm."""

_REMOVALS = 20

WAIT_SECONDS = 600
"""Long, for things that take seconds: nodes are slow that share two cores with other tests."""

Resource = dict[str, Any]


@dataclass(frozen=True)
class S3:
    """Access to the S3 server from this process, with its owner's credentials."""

    endpoint: str
    access_key: str
    secret_key: str

    def filesystem(self) -> S3FileSystem:
        """A file system whose first folder is the bucket."""
        return S3FileSystem(
            access_key=self.access_key,
            secret_key=self.secret_key,
            endpoint_override=self.endpoint,
            region="us-east-1",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    def storage_options(self) -> dict[str, str]:
        """The same for delta-rs."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }


@dataclass(frozen=True)
class Cluster:
    """A running cluster, as its administrator."""

    kubeconfig: Path

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run kubectl and return its output; raises CalledProcessError, with the error output as a note."""
        command: Sequence[str | Path] = [programs.program("kubectl"), "--kubeconfig", self.kubeconfig, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            error = subprocess.CalledProcessError(done.returncode, [str(part) for part in command])
            error.add_note(done.stderr)
            raise error
        return done.stdout

    def apply(self, *resources: Resource) -> None:
        """Create or change resources."""
        self.kubectl(
            "apply", "--filename", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": resources})
        )

    def get(self, kind: str, name: str, namespace: str) -> Resource | None:
        """A resource; None if it doesn't exist."""
        # Tests ask each second: that many processes of kubectl take a tenth of a core.
        try:
            found: Resource = self._kinds.get(singular_name=kind).get(name=name, namespace=namespace).to_dict()
        except NotFoundError:
            return None
        return found

    def wait_for(
        self, kind: str, name: str, namespace: str, true: Callable[[Resource], bool], seconds: float = WAIT_SECONDS
    ) -> Resource:
        """The resource as soon as `true` accepts it; `seconds` after its last change fails with that state."""
        found: Resource | None = None

        def look() -> Resource | None:
            nonlocal found
            found = self.get(kind, name, namespace)
            return found if found is not None and true(found) else None

        def status() -> str:
            return f"{kind} {name} as hoped for; its status: {json.dumps((found or {}).get('status'), indent=1)}"

        return wait_until(look, seconds, status, progress=lambda: found, beat=1)

    @functools.cached_property
    def api(self) -> client.ApiClient:
        """The official Python client's connection."""
        return config.new_client_from_config(str(self.kubeconfig))

    @functools.cached_property
    def _kinds(self) -> Any:
        return dynamic.DynamicClient(self.api).resources

    @functools.cached_property
    def s3(self) -> S3:
        """The S3 server."""
        secret = client.CoreV1Api(self.api).read_namespaced_secret(install.S3_SECRET, install.STORAGE_NAMESPACE).data
        access_key, secret_key = (base64.b64decode(secret[key]).decode() for key in ("accessKey", "secretKey"))
        return S3(f"http://127.0.0.1:{kind.S3_PORT}", access_key, secret_key)

    @contextmanager
    def namespace(self, prefix: str) -> Iterator[str]:
        """A new namespace with the restricted Pod Security Standard, deleted afterwards."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        try:
            yield name
        finally:
            self.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")

    @contextmanager
    def bucket(self, prefix: str) -> Iterator[str]:
        """A new bucket, deleted afterwards with its objects."""
        name = f"{prefix}-{secrets.token_hex(3)}"
        files = self.s3.filesystem()
        files.create_dir(name)
        try:
            yield name
        finally:
            remove_bucket(files, name)


def remove_bucket(files: S3FileSystem, bucket: str) -> None:
    """Delete a bucket; a run that a failed test has left may still write to it for a while."""
    for patience in range(_REMOVALS, 0, -1):
        try:
            # The server keeps objects as files: a folder must be empty before it is deleted.
            for entry in sorted(files.get_file_info(FileSelector(bucket, recursive=True)), key=_path, reverse=True):
                if entry.type == FileType.File:
                    files.delete_file(entry.path)
                else:
                    files.delete_dir(entry.path)
            files.delete_dir(bucket)
            return
        except OSError:
            if patience == 1:
                raise
            time.sleep(2)


def _path(entry: FileInfo) -> str:
    return entry.path


def cluster() -> Cluster:
    """The cluster, created if there is none, and the operator in it, with images of the present code."""
    install_operator()
    return Cluster(kind.kubeconfig())


def install_operator() -> None:
    """Install or upgrade the operator, and create the cluster if there is none."""
    # Its progress goes to this process's standard error, as creating a cluster takes minutes.
    command = [sys.executable, "-m", "hack.cluster", "up", "--values", str(VALUES)]
    subprocess.run(command, cwd=REPOSITORY, env=dict(os.environ), check=True)


@contextmanager
def without_operator() -> Iterator[None]:
    """Uninstall the operator's release, and install it again afterwards."""
    helm("uninstall", *RELEASE, "--wait")
    try:
        yield
    finally:
        install_operator()


def upgraded(*values: str) -> AbstractContextManager[None]:
    """The operator's release with other values, rolled back afterwards."""
    chosen = [option for value in values for option in ("--set-json", value)]
    return _until_rolled_back(CHART, "--reuse-values", *chosen)


def released(tree: Path) -> AbstractContextManager[None]:
    """The operator's release as a source tree's chart has it, rolled back afterwards; its images are in the node."""
    files = (tree / "hack" / "manifests" / "message-store-operator.yaml", VALUES)
    return _until_rolled_back(tree / "charts" / CHART.name, *(part for file in files for part in ("--values", file)))


@contextmanager
def _until_rolled_back(chart: Path, *options: str | Path) -> Iterator[None]:
    name, *where = RELEASE
    # By its number: the one before is another after a change within this one, or after one that failed.
    before = json.loads(helm("status", *RELEASE, "--output", "json"))["version"]
    try:
        helm("upgrade", name, chart, *where, *options, "--wait", "--timeout", "10m")
        yield
    finally:
        helm("rollback", *RELEASE, str(before), "--wait", "--timeout", "10m")
