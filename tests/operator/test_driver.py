"""A driver's main as in a pod, with a real API server where its account may use only one ConfigMap."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from messagestore_core.contract.ingest import IngestOutcome, IngestTask
from messagestore_core.contract.records import FilesSource
from messagestore_core.contract.run_document import Resource, RunDocument
from messagestore_core.contract.run_report import RunReport
from messagestore_core.contract.stores import Owner, Table
from messagestore_jobs.driver.reporting import ConfigMap
from messagestore_jobs.session import LITTLE, LITTLE_JAVA_OPTIONS, class_path, classes_archive
from support.apiserver import ApiServer
from support.ingests import lines, record
from support.waiting import scaled, wait_until

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PATIENCE_SECONDS = 240


@pytest.fixture
def run(apiserver: ApiServer, request: pytest.FixtureRequest) -> Iterator[str]:
    """A run's ConfigMap, another ConfigMap, and an account that may get and patch only the first."""
    name = f"orders-ingest-{abs(hash(request.node.name)) % 10**6}"
    account = {"kind": "ServiceAccount", "name": name}
    role = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get", "patch"]}
    things = [
        (CONFIG_MAPS, {"metadata": {"name": name}, "data": {}}),
        (CONFIG_MAPS, {"metadata": {"name": f"{name}-other"}, "data": {}}),
        (ACCOUNTS, {"metadata": {"name": name}}),
        (f"{ROLES}/roles", {"metadata": {"name": name}, "rules": [role]}),
        (
            f"{ROLES}/rolebindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [{**account, "namespace": "default"}],
            },
        ),
    ]
    for path, body in things:
        assert apiserver.request("POST", path, body).accepted
    yield name
    for path, body in reversed(things):
        apiserver.request("DELETE", f"{path}/{body['metadata']['name']}")


def _submitted(run: str) -> str:
    """The settings of a submission, and those with which Spark starts fast for little data."""
    settings = {
        "spark.master": "local[1]",
        "spark.app.name": run,
        "spark.driver.extraClassPath": os.pathsep.join(class_path()),
        "spark.driver.extraJavaOptions": f"-XX:SharedArchiveFile={classes_archive()}",
        **LITTLE,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


class Pod:
    """What Kubernetes gives a driver: its document, its environment and its account's files."""

    def __init__(self, folder: Path, apiserver: ApiServer, run: str, port: int | None = None) -> None:
        self.folder, self.apiserver, self.run = folder, apiserver, run
        (folder / "landing").mkdir()
        (folder / "landing" / "1.jsonl").write_bytes(lines(record("m1"), record("m2")))
        (folder / "run.json").write_text(self._document().model_dump_json(by_alias=True))
        (folder / "log").touch()
        (folder / "spark.properties").write_text(_submitted(run))
        answer = apiserver.request("POST", f"{ACCOUNTS}/{run}/token", {"spec": {"expirationSeconds": 3600}})
        (folder / "token").write_text(answer.body["status"]["token"])
        (folder / "ca.crt").write_text(apiserver.certificate.read_text())
        environment = {
            **os.environ,
            "MESSAGESTORE_RUN_DOCUMENT": str(folder / "run.json"),
            "MESSAGESTORE_CONFIGMAP": f"default/{run}",
            "MESSAGESTORE_SERVICE_ACCOUNT": str(folder),
            "MESSAGESTORE_TERMINATION_LOG": str(folder / "log"),
            "MESSAGESTORE_GRACE_SECONDS": f"{scaled(60):.0f}",
            "JDK_JAVA_OPTIONS": LITTLE_JAVA_OPTIONS,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(port or apiserver.port),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYSPARK_SUBMIT_ARGS": f"--properties-file {folder}/spark.properties --deploy-mode client pyspark-shell",
        }
        with (folder / "output").open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "messagestore_jobs.driver"],
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _document(self) -> RunDocument:
        return RunDocument(
            run=self.run,
            resource=Resource(kind="MessageStream", namespace="default", name="orders"),
            table=Table(uri=f"file://{self.folder}/orders", owner=Owner(namespace="default", name="orders")),
            task=IngestTask(
                source_id="s",
                source=FilesSource(uri=f"file://{self.folder}/landing"),
                batch_interval=timedelta(seconds=1),
            ),
        )

    def reported(self) -> RunReport | None:
        """The report in the ConfigMap."""
        data = self.apiserver.request("GET", f"{CONFIG_MAPS}/{self.run}").body.get("data") or {}
        return RunReport.model_validate_json(data["report.json"]) if "report.json" in data else None

    def wait_for(self, seen: Callable[[], bool]) -> None:
        wait_until(seen, PATIENCE_SECONDS, self.output, alive=lambda: self.process.poll() is None, beat=0.2)

    def ended(self) -> int:
        return self.process.wait(scaled(PATIENCE_SECONDS))

    def output(self) -> str:
        return (self.folder / "output").read_text()[-4000:]

    def termination(self) -> RunReport:
        return RunReport.model_validate_json((self.folder / "log").read_text())


def stored(report: RunReport | None) -> int:
    return report.outcome.counts.stored if report and isinstance(report.outcome, IngestOutcome) else 0


def test_a_run_reports_while_it_lasts_and_stops_when_it_is_asked_to(
    tmp_path: Path, apiserver: ApiServer, run: str
) -> None:
    pod = Pod(tmp_path, apiserver, run)
    pod.wait_for(lambda: stored(pod.reported()) == 2)
    living = pod.reported()
    assert (living.state, living.progress and living.progress.step) == ("Running", "ingest")

    stop = {"data": {"control.json": json.dumps({"stop": True})}}
    assert apiserver.request(
        "PATCH", f"{CONFIG_MAPS}/{run}", stop, content_type="application/merge-patch+json"
    ).accepted
    assert pod.ended() == 0, pod.output()
    last = pod.reported()
    assert (last.state, stored(last)) == ("Succeeded", 2)
    assert last.sequence > living.sequence
    assert pod.termination() == last


def test_a_driver_works_on_without_the_api_server_and_ends_cleanly_on_sigterm(
    tmp_path: Path, apiserver: ApiServer, run: str
) -> None:
    pod = Pod(tmp_path, apiserver, run, port=1)
    pod.wait_for(lambda: (tmp_path / "orders" / "messages" / "_delta_log" / "00000000000000000001.json").exists())
    pod.process.send_signal(signal.SIGTERM)
    assert pod.ended() == 1, pod.output()
    last = pod.termination()
    assert (last.error.reason, stored(last)) == ("RunStopped", 2)
    assert pod.reported() is None


def test_a_driver_can_touch_no_other_configmap(tmp_path: Path, apiserver: ApiServer, run: str) -> None:
    answer = apiserver.request("POST", f"{ACCOUNTS}/{run}/token", {"spec": {"expirationSeconds": 3600}})
    (tmp_path / "token").write_text(answer.body["status"]["token"])
    (tmp_path / "ca.crt").write_text(apiserver.certificate.read_text())
    own = ConfigMap(f"https://127.0.0.1:{apiserver.port}", "default", run, tmp_path)
    assert own.write_report("{}") == {"report.json": "{}"}
    other = ConfigMap(f"https://127.0.0.1:{apiserver.port}", "default", f"{run}-other", tmp_path)
    with pytest.raises(OSError, match="Forbidden"):
        other.write_report("{}")
    with pytest.raises(OSError, match="Forbidden"):
        other.read()
