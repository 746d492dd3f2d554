"""A real S3 server on a free port of this machine, for as long as a test needs it."""

import hashlib
import hmac
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from hack.programs import program
from pyarrow import fs

from messagestore_core.contract.stores import CredentialVariables, StorageEntry
from support.certificates import certify
from support.servers import free_ports, wait_until_it_listens
from support.waiting import scaled

START_SECONDS = 30
ACCESS_KEY, SECRET_KEY = "test-access-key", "test-secret-key"

RIGHT = CredentialVariables(
    access_key="MESSAGESTORE_STORAGE_1_ACCESS_KEY", secret_key="MESSAGESTORE_STORAGE_1_SECRET_KEY"
)
WRONG = CredentialVariables(
    access_key="MESSAGESTORE_STORAGE_2_ACCESS_KEY", secret_key="MESSAGESTORE_STORAGE_2_SECRET_KEY"
)
LIMITED = CredentialVariables(
    access_key="MESSAGESTORE_STORAGE_3_ACCESS_KEY", secret_key="MESSAGESTORE_STORAGE_3_SECRET_KEY"
)
ENVIRONMENT = {
    RIGHT.access_key: ACCESS_KEY,
    RIGHT.secret_key: SECRET_KEY,
    WRONG.access_key: ACCESS_KEY,
    WRONG.secret_key: "not-the-secret-key",
    LIMITED.access_key: "limited-access-key",
    LIMITED.secret_key: "limited-secret-key",
}
"""Environment variables that a pod would have from Secrets. A JVM keeps the environment of its start."""


@dataclass
class ObjectStore:
    """The server; `endpoint` is its address, `ca_file` its certificate authority, with https."""

    endpoint: str
    ca_file: str | None = None

    def entry(self, bucket: str, variables: CredentialVariables = RIGHT) -> StorageEntry:
        """The storage entry of a bucket in a run document."""
        return StorageEntry(
            bucket=bucket, endpoint=self.endpoint, path_style_access=True, environment=variables, ca_file=self.ca_file
        )

    def files(self) -> fs.S3FileSystem:
        """A file system with all buckets as folders."""
        return fs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            region="us-east-1",
            scheme=urlsplit(self.endpoint).scheme,
            endpoint_override=urlsplit(self.endpoint).netloc,
            tls_ca_file_path=self.ca_file,
            allow_bucket_creation=True,
        )

    def make_bucket(self, name: str) -> str:
        """Create a bucket; returns its URI."""
        self.files().create_dir(name)
        return f"s3a://{name}"

    def keep_versions(self, bucket: str) -> None:
        """Make a bucket keep earlier versions of objects."""
        body = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"
        self._set(bucket, "versioning", body)

    def allow(self, bucket: str, policy: dict[str, Any]) -> None:
        """Set the policy of a bucket, for users other than its owner."""
        self._set(bucket, "policy", json.dumps(policy))

    def make_user(self, variables: CredentialVariables) -> None:
        """Create a user with keys and without permissions."""
        command = [program("versitygw"), "admin", "--endpoint-url", self.endpoint, "create-user", "--role", "user"]
        keys = ("--access", ENVIRONMENT[variables.access_key], "--secret", ENVIRONMENT[variables.secret_key])
        admin = {"ADMIN_ACCESS_KEY": ACCESS_KEY, "ADMIN_SECRET_KEY": SECRET_KEY}
        subprocess.run([*command, *keys], env={**os.environ, **admin}, check=True, stdout=subprocess.DEVNULL)

    def _set(self, bucket: str, what: str, text: str) -> None:
        """Change a setting of a bucket, which pyarrow can't."""
        now, host, body = datetime.now(UTC), urlsplit(self.endpoint).netloc, text.encode()
        digest, moment, day = hashlib.sha256(body).hexdigest(), f"{now:%Y%m%dT%H%M%SZ}", f"{now:%Y%m%d}"
        headers = {"host": host, "x-amz-content-sha256": digest, "x-amz-date": moment}
        signed = ";".join(headers)
        lines = [f"{name}:{value}" for name, value in headers.items()]
        request = "\n".join(["PUT", f"/{bucket}", f"{what}=", *lines, "", signed, digest])
        scope = f"{day}/us-east-1/s3/aws4_request"
        wanted = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])
        key = f"AWS4{SECRET_KEY}".encode()
        for part in (*scope.split("/"), wanted):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        credential = f"AWS4-HMAC-SHA256 Credential={ACCESS_KEY}/{scope}, SignedHeaders={signed}, Signature={key.hex()}"
        asked = Request(f"{self.endpoint}/{bucket}?{what}=", body, {**headers, "Authorization": credential})
        asked.method = "PUT"
        urlopen(asked, timeout=scaled(START_SECONDS)).close()

    def put(self, path: str, content: bytes) -> None:
        """Write an object; `path` begins with its bucket."""
        with self.files().open_output_stream(path, compression=None) as stream:
            stream.write(content)

    def upload(self, folder: Path, path: str) -> None:
        """Copy a folder of this machine; `path` is its bucket, or begins with it."""
        files, local = self.files(), fs.LocalFileSystem()
        fs.copy_files(str(folder), path, source_filesystem=local, destination_filesystem=files, chunk_size=64 << 20)

    def get(self, path: str) -> bytes:
        """Read an object."""
        with self.files().open_input_stream(path, compression=None) as stream:
            return bytes(stream.read())

    def names(self, folder: str) -> list[str]:
        """The objects below a folder, without folder markers."""
        found = self.files().get_file_info(fs.FileSelector(folder, recursive=True))
        return sorted(info.path.removeprefix(f"{folder}/") for info in found if info.is_file)


@contextmanager
def running_object_store(*, https: bool = False, access_log: Path | None = None) -> Iterator[ObjectStore]:
    """Start a server with its own folder, and end it afterwards; with https, with a new certificate authority."""
    with tempfile.TemporaryDirectory(prefix="object-store-") as folder:
        home = Path(folder)
        # Neither name may be a prefix of the other.
        for name in ("objects", "attributes", "versions", "users"):
            (home / name).mkdir()
        (port,) = free_ports(1)
        command = [str(program("versitygw")), "--port", f"127.0.0.1:{port}", "--iam-dir", str(home / "users")]
        command += ["--access-log", str(access_log)] if access_log else []
        command += ["posix", "--sidecar", str(home / "attributes")]
        command += ["--versioning-dir", str(home / "versions")]
        authority = str(certify(home)[0]) if https else None
        if https:
            command[1:1] = ["--cert", str(home / "server.pem"), "--key", str(home / "server.key")]
        environment = {**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
        log = home / "server.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [*command, str(home / "objects")], env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            wait_until_it_listens("the object store", server, port, log, START_SECONDS)
            yield ObjectStore(f"{'https' if https else 'http'}://127.0.0.1:{port}", authority)
        finally:
            server.terminate()
            server.wait(timeout=scaled(20))
