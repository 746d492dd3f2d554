"""A store in the cluster is read by people: by pods with its own credentials, which leave nothing behind."""

import json

import pytest
from hack import install, kind
from hack.programs import program
from typer.testing import CliRunner

from messagestore_operator.kube.objects import MANAGED_BY
from messagestore_operator.plugin.kubectl import MANAGER, Kubectl
from messagestore_operator.plugin.main import app
from support.kind import Resource
from support.records import records
from support.site import STREAM, Site

READER = "somebody-who-reads"
PAYLOAD = '{"n":7,"sum":1.10}'
_API = "rbac.authorization.k8s.io"


class Reading:
    """The plugin as a user with ClusterRole …-read alone; it keeps the log of each pod that it deletes."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.logs: list[str] = []

    def said(self, *arguments: str, code: int = 0) -> str:
        """What a command prints."""
        where = ("--namespace", self._site.namespace, "--kubeconfig", str(kind.kubeconfig()), "--as", READER)
        result = CliRunner().invoke(app, [*arguments, *where])
        assert result.exit_code == code, f"{result.output}\n{self._site.story()}"
        return result.stdout if code == 0 else result.stderr

    def keep_log(self, pod: str) -> None:
        self.logs.append(self._site.kubectl("logs", pod))


@pytest.fixture
def reading(site: Site, monkeypatch: pytest.MonkeyPatch) -> Reading:
    site.apply(_binding(site.namespace))
    made, delete = Reading(site), Kubectl.delete

    def delete_after_a_look(kubectl: Kubectl, plural: str, name: str, *, dry_run: bool) -> None:
        made.keep_log(name)
        delete(kubectl, plural, name, dry_run=dry_run)

    monkeypatch.setattr(Kubectl, "delete", delete_after_a_look)
    monkeypatch.setenv("PATH", str(program("kubectl").parent), prepend=":")
    return made


def _binding(namespace: str) -> Resource:
    role = f"{install.OPERATOR_RELEASE}-message-store-operator-read"
    return {
        "apiVersion": f"{_API}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reads", "namespace": namespace},
        "roleRef": {"apiGroup": _API, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _API, "kind": "User", "name": READER}],
    }


def test_a_store_is_read_and_neither_a_log_nor_a_pod_remains(site: Site, reading: Reading) -> None:
    site.land("orders/1.jsonl", records(range(20)))
    site.land("updates/1.jsonl", b'{"messageId":"m-7","status":"COMPLETED"}\n')
    updates = {"source": {"files": {"uri": site.uri("landing/updates")}}}
    site.apply(site.stream(lifecycle=updates))
    site.wait(STREAM, "orders", lambda status: not status.get("currentRun") and status.get("lastRun"), "it has run")

    page = reading.said("messages", "orders", "order-2", "--limit", "3")
    assert [line.split()[2] for line in page.splitlines()] == ["ID", "m-17", "m-12", "m-7"]
    (found,) = json.loads(reading.said("messages", "orders", "--status", "COMPLETED", "--payload", "-o", "json"))
    assert (found["messageId"], found["payload"]) == ("m-7", {"n": 7, "sum": 1.1})
    assert PAYLOAD in reading.said("message", "orders", "m-7", "--payload")
    (change,) = json.loads(reading.said("history", "orders", "m-7", "-o", "json"))
    assert (change["fromStatus"], change["toStatus"]) == ("RECEIVED", "COMPLETED")
    assert "payloads:  ok, 20 messages" in reading.said("verify", "orders")
    assert "nothing is known of it" in reading.said("message", "orders", "m-99", code=1)

    assert reading.logs == [""] * 6
    left = f"--selector={MANAGED_BY}={MANAGER}"
    site.until(lambda: not site.items("pods", left), "the pods are gone")
