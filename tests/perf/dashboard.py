"""Make the docs' pictures of the dashboard: an operator and drivers at work on an S3 server, seen by a Prometheus.

PYTHONPATH=tests .venv/bin/python -m tests.perf.dashboard [MINUTES]

API server, operator, object storage, Prometheus and jobs are real. Of Kubernetes, the kubelet and the Spark operator
aren't: a driver is a process of this machine, with Spark in it.
"""

import base64
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hack.dashboard.pictures import Source, draw

from messagestore_jobs.session import LITTLE, LITTLE_JAVA_OPTIONS, class_path, classes_archive
from support import sparkoperator
from support.apiserver import ApiServer, running_apiserver
from support.background import repeated
from support.definitions import install_definitions
from support.fakespark import FakeSpark, Run
from support.objectstore import ACCESS_KEY, SECRET_KEY, ObjectStore, running_object_store
from support.operators import running_operator
from support.prometheus import running_prometheus

OWN = "shop"
ROOT = f"/apis/messagestore.dev/v1alpha1/namespaces/{OWN}"
ENDPOINT = "http://objects.example.org"
"""The object storage, as resources name it: they may not name this machine."""
PLURALS = {"MessageStream": "messagestreams", "RetentionPolicy": "retentionpolicies", "ReplayJob": "replayjobs"}
TENANCY = {"secrets": {"requireLabel": False}, "http": {"hosts": ["events.example.org"]}}
_FIRST_FILES = 9
"""When these have landed, the other kinds come: then there is something to remove and to send."""
_SETTINGS = {
    "spark.master": "local[1]",
    "spark.driver.extraClassPath": os.pathsep.join(class_path()),
    "spark.driver.extraJavaOptions": f"-XX:SharedArchiveFile={classes_archive()}",
    **LITTLE,
}


@dataclass
class Drivers(FakeSpark):
    """Runs each driver as a process, which reports by itself."""

    store: ObjectStore = field(default_factory=lambda: ObjectStore(""))
    folder: Path = Path()
    token: str = ""
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    def _report(self, run: Run, state: str, error: dict[str, str] | None = None, *, complete: bool = True) -> None:
        home = self.folder / run.name
        home.mkdir()
        document = json.dumps(run.document).replace(ENDPOINT, self.store.endpoint)
        for name, content in {
            "run.json": document,
            "token": self.token,
            "ca.crt": self.server.certificate.read_text(),
            "log": "",
            "spark.properties": "".join(f"{name}={value}\n" for name, value in _SETTINGS.items()),
        }.items():
            (home / name).write_text(content)
        environment = {
            **os.environ,
            **dict.fromkeys(re.findall(r"MESSAGESTORE_STORAGE_\d+_ACCESS_KEY", document), ACCESS_KEY),
            **dict.fromkeys(re.findall(r"MESSAGESTORE_STORAGE_\d+_SECRET_KEY", document), SECRET_KEY),
            "MESSAGESTORE_RUN_DOCUMENT": str(home / "run.json"),
            "MESSAGESTORE_CONFIGMAP": f"{run.namespace}/{run.name}",
            "MESSAGESTORE_SERVICE_ACCOUNT": str(home),
            "MESSAGESTORE_TERMINATION_LOG": str(home / "log"),
            "JDK_JAVA_OPTIONS": LITTLE_JAVA_OPTIONS,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.server.port),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {home}/spark.properties --deploy-mode client pyspark-shell",
        }
        command = [sys.executable, "-m", "messagestore_jobs.driver"]
        with (home / "output").open("wb") as output:
            self.processes[run.name] = subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def _drive(self, run: Run) -> None:
        ended = self.processes[run.name].poll()
        if ended is not None:
            self._set_pod(run, "Failed" if ended else "Succeeded")
            run.over = True
            sparkoperator.set_state(self.server, run.namespace, run.name, "FAILED" if ended else "COMPLETED")


def main() -> None:
    """Work for some minutes, then draw them; beside other work on the machine, twelve show each panel."""
    seconds = 60 * float(sys.argv[1] if len(sys.argv) > 1 else "12")
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="dashboard-", ignore_cleanup_errors=True)))
        server = held.enter_context(running_apiserver())
        store = held.enter_context(running_object_store())
        install_definitions(server)
        held.enter_context(_drivers(server, store, folder))
        settings = {"namespace": OWN, "watchNamespaces": [OWN], "tenancy": TENANCY, "runs": {"backoffBase": "PT2M"}}
        operator = held.enter_context(running_operator(server, folder, settings))
        prometheus = held.enter_context(running_prometheus(folder / "prometheus", operator.metrics_port, "5s"))
        start = time.time()
        storage = _apply_streams(server, store)
        for number in range(int(seconds / 10)):
            _land(store, number)
            time.sleep(10)
            if number == _FIRST_FILES:
                _apply_others(server, storage)
        draw(Source(f"http://127.0.0.1:{prometheus.port}", start, time.time()))


@contextmanager
def _drivers(server: ApiServer, store: ObjectStore, folder: Path) -> Iterator[None]:
    assert server.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN}}).accepted
    accounts, subject = f"/api/v1/namespaces/{OWN}/serviceaccounts", {"kind": "ServiceAccount", "name": "driver"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"metadata": {"name": "driver"}, "roleRef": role, "subjects": [{**subject, "namespace": OWN}]}
    assert server.request("POST", accounts, {"metadata": {"name": "driver"}}).accepted
    assert server.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).accepted
    token = server.request("POST", f"{accounts}/driver/token", {"spec": {"expirationSeconds": 7200}}).body
    drivers = Drivers(server.another(), OWN, store=store, folder=folder, token=token["status"]["token"])
    try:
        with repeated(drivers.step, seconds=0.2):
            yield
    finally:
        for process in drivers.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


def _land(store: ObjectStore, number: int) -> None:
    """Another file for each stream: of the records, some are twice there, some not JSON, some without a type."""
    for name, count in (("orders", 400 + 40 * (number % 7)), ("payments", 150)):
        lines = [_record(name, number * 1000 + one) for one in range(count)]
        lines += [*lines[:20], *["{torn"] * (number % 5), *['{"data": {}}'] * (number % 3)]
        store.put(f"landing/{name}/{number:05}.jsonl", "\n".join(lines).encode())


def _record(name: str, number: int) -> str:
    event = {
        "specversion": "1.0",
        "id": f"{name}-{number}",
        "source": "/shop",
        "type": f"{name.capitalize()}{'Taken' if number % 10 else 'Refused'}",
        "subject": f"{name}-{number % 50}",
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "data": {"amount": number % 97, "note": "n" * 200},
    }
    return json.dumps(event)


def _apply_streams(server: ApiServer, store: ObjectStore) -> dict[str, Any]:
    """Two streams that work, and one whose bucket is gone; the storage of all."""
    for bucket in ("lake", "landing", "replay"):
        store.make_bucket(bucket)
    keys = {"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}
    data = {name: base64.b64encode(value.encode()).decode() for name, value in keys.items()}
    secret = {"metadata": {"name": "lake-access"}, "data": data}
    assert server.request("POST", f"/api/v1/namespaces/{OWN}/secrets", secret).accepted
    storage = {
        "endpoint": ENDPOINT,
        "region": "us-east-1",
        "pathStyleAccess": True,
        "credentialsSecretRef": {"name": "lake-access"},
    }
    for name, every, bucket in (
        ("orders", "PT1M", "landing"),
        ("payments", "PT2M", "landing"),
        ("refunds", "PT2M", "gone"),
    ):
        spec = {
            "table": {"uri": f"s3a://lake/{name}"},
            "storage": storage,
            "source": {"files": {"uri": f"s3a://{bucket}/{name}/", "format": "JSONLines"}},
            "trigger": {"interval": every},
            "envelope": {"format": "CloudEvents"},
        }
        _apply(server, "MessageStream", name, spec)
    return storage


def _apply_others(server: ApiServer, storage: dict[str, Any]) -> None:
    """A purge that waits for approval, an erasure, a slow replay, and a subscription with an endpoint that is away."""
    policy: dict[str, Any] = {"trigger": {"manual": {}}, "mode": "Enforce"}
    refused = {"name": "refused", "match": {"types": ["PaymentsRefused"]}}
    old = {"streamRefs": [{"name": "payments"}], "rules": [refused], "approval": "Required"}
    _apply(server, "RetentionPolicy", "refused", {**policy, **old})
    gone = {"name": "gone", "match": {"types": ["OrdersRefused"]}, "erase": True}
    erasing = {"streamRefs": [{"name": "orders"}], "rules": [gone]}
    _apply(server, "RetentionPolicy", "to-be-forgotten", {**policy, **erasing, "erasure": {"within": "PT8H"}})
    orders = {"streamRef": {"name": "orders"}}
    again = {"files": {"uri": "s3a://replay/again", "storage": storage}}
    _apply(server, "ReplayJob", "again", {**orders, "destination": again, "rateLimit": {"messagesPerSecond": 3}})
    several = [
        {"name": "audit", "files": {"uri": "s3a://replay/audit", "storage": storage}},
        {"name": "hook", "where": "payload_size > 0", "http": {"url": "https://events.example.org/orders"}},
    ]
    out = {**orders, "start": {"at": "Beginning"}, "trigger": {"interval": "PT2M"}}
    _apply(server, "ReplayJob", "out", {**out, "destinations": several})


def _apply(server: ApiServer, kind: str, name: str, spec: dict[str, Any]) -> None:
    metadata = {"name": name, "namespace": OWN, "annotations": {"messagestore.dev/run-requested": "first"}}
    document = {"apiVersion": "messagestore.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    answer = server.request("POST", f"{ROOT}/{PLURALS[kind]}?fieldValidation=Strict", document)
    assert answer.accepted, answer.body


if __name__ == "__main__":
    main()
