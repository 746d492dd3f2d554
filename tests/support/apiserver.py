"""A real kube-apiserver with its etcd, on free ports of this machine, for as long as a test needs it."""

import http.client
import json
import ssl
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hack.programs import program

from support.servers import free_ports
from support.waiting import scaled, wait_until

START_SECONDS = 90
TOKEN = "test-token"


@dataclass
class Answer:
    """An answer of the API server."""

    status: int
    body: dict[str, Any]

    @property
    def accepted(self) -> bool:
        return self.status < 300

    @property
    def causes(self) -> list[tuple[str, str]]:
        """The field and the message of each reason for a refusal."""
        causes = self.body.get("details", {}).get("causes", [])
        return [(cause.get("field", ""), cause.get("message", "")) for cause in causes]


@dataclass
class ApiServer:
    """One kept-alive connection to the API server, as an administrator."""

    port: int
    certificate: Path
    program: "_Program | None" = field(default=None, repr=False)
    _connection: http.client.HTTPSConnection | None = field(default=None, repr=False)

    def another(self) -> "ApiServer":
        """Another connection to the same server, for another thread."""
        return ApiServer(self.port, self.certificate)

    def restart(self) -> None:
        """Kill the server and start it again; its objects are in etcd."""
        self.close()
        self.program.restart()
        _wait_until_ready(self, self.program)

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content_type: str = "application/json",
        user: str = "",
        pod: str = "",
    ) -> Answer:
        """Send a request as an administrator or another user; service accounts have their long names.

        Args:
            method: of HTTP.
            path: the URL's path.
            body: any JSON.
            content_type: of the body.
            user: the name of the user; without one, the administrator.
            pod: the pod of the token, which the API server knows for tokens that a kubelet mounted.
        """
        for attempt in (1, 2):
            try:
                return self._request(method, path, body, content_type, user, pod)
            except (http.client.HTTPException, ConnectionError, ssl.SSLError):
                self.close()
                if attempt == 2:
                    raise
        raise AssertionError("unreachable")

    def _request(self, method: str, path: str, body: Any, content_type: str, user: str, pod: str) -> Answer:
        if self._connection is None:
            context = ssl.create_default_context(cafile=str(self.certificate))
            self._connection = http.client.HTTPSConnection("127.0.0.1", self.port, context=context, timeout=scaled(60))
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": content_type, "Accept": "application/json"}
        if user:
            headers["Impersonate-User"] = user
        if pod:
            headers["Impersonate-Extra-authentication.kubernetes.io%2Fpod-name"] = pod
        self._connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = self._connection.getresponse()
        text = response.read()
        try:
            return Answer(response.status, json.loads(text))
        except ValueError:
            return Answer(response.status, {"message": text.decode(errors="replace")})

    def kubeconfig(self, folder: Path) -> Path:
        """A file in the folder that lets helm and kubectl reach the server as an administrator."""
        cluster = {"server": f"https://127.0.0.1:{self.port}", "certificate-authority": str(self.certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": {"token": TOKEN}}],
        }
        file = folder / "kubeconfig"
        file.write_text(json.dumps(content))
        return file

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@contextmanager
def running_apiserver(flags: Sequence[str] = ()) -> Iterator[ApiServer]:
    """Start etcd and kube-apiserver, with more flags, in their own folder, and end them afterwards."""
    with tempfile.TemporaryDirectory(prefix="apiserver-") as folder:
        home = Path(folder)
        etcd_port, peer_port, api_port = free_ports(3)
        etcd = _Program(home / "etcd.log", _etcd(home, etcd_port, peer_port))
        try:
            apiserver = _Program(home / "apiserver.log", [*_apiserver(home, etcd_port, api_port), *flags])
            try:
                server = ApiServer(api_port, home / "certificates" / "apiserver.crt", apiserver)
                _wait_until_ready(server, apiserver)
                yield server
                server.close()
            finally:
                apiserver.end()
        finally:
            etcd.end()


def _etcd(home: Path, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(program("etcd")),
        f"--data-dir={home / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
    ]


def _apiserver(home: Path, etcd_port: int, port: int) -> list[str]:
    key = home / "service-account.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    tokens = home / "tokens.csv"
    tokens.write_text(f"{TOKEN},tester,tester,system:masters\n")
    return [
        str(program("kube-apiserver")),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={home / 'certificates'}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=RBAC",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--disable-admission-plugins=ServiceAccount",
    ]


class _Program:
    """A process, and how to start it."""

    def __init__(self, log: Path, command: list[str]) -> None:
        self.log = log
        self._command = command
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as output:
            return subprocess.Popen(self._command, stdout=output, stderr=subprocess.STDOUT)

    def restart(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process = self._start()

    def end(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=scaled(20))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _wait_until_ready(server: ApiServer, program: _Program) -> None:
    def ready() -> bool:
        try:
            return server.request("GET", "/readyz").accepted
        except (OSError, http.client.HTTPException):
            server.close()
            return False

    def failure() -> str:
        return f"kube-apiserver is ready; it said:\n{program.log.read_text()[-4000:]}"

    wait_until(ready, START_SECONDS, failure, alive=lambda: program.process.poll() is None, beat=0.2)
