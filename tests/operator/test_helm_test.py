"""What the pod of `helm test` does, with its own account's rights; the test fakes Spark."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.apiserver import ApiServer
from support.charts import collection
from support.fakespark import FakeSpark, fake_spark
from support.helm import rendered
from support.installed import installed_chart
from support.judges import url
from support.operators import FAST, Operator, eventually, running_operator
from support.secrets import make_storage_secrets

OWN = "helm-test"
NAME = "store-message-store-operator-test"
VALUES = (
    "approval.admissionPolicy=true",
    f"test.uri=s3a://lake/test,test.namespace={OWN}",
    "test.storage.credentialsSecretRef.name=lake-credentials",
)


def _tell(document: dict[str, Any], report: dict[str, Any]) -> None:
    """Count as the jobs do: ten messages, of which a purge removes four."""
    outcome = report.get("outcome", {})
    if outcome.get("kind") == "ingest" and document["table"]["uri"].endswith("/store"):
        outcome["counts"] = outcome["totals"] = {**outcome["counts"], "received": 10, "stored": 10, "duplicates": 0}
    elif outcome.get("kind") == "purge":
        outcome["preview"]["messages"] = outcome["purge"]["purged"] = 4
    elif outcome.get("kind") == "replay":
        outcome["selection"]["messages"] = outcome["progress"]["replayed"] = 6


@pytest.fixture(scope="module")
def operator(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN}}).accepted
    make_storage_secrets(apiserver, OWN)
    folder = tmp_path_factory.mktemp("helm-test")
    with installed_chart(apiserver, OWN, folder, *VALUES) as chart:
        settings = {**chart.settings, **FAST}
        with running_operator(apiserver, folder, settings, chart.kubeconfig) as started:
            yield started


@pytest.fixture(scope="module")
def spark(apiserver: ApiServer) -> Iterator[FakeSpark]:
    with fake_spark(apiserver, OWN) as fake:
        yield fake
    assert (fake.problems, fake.overlaps) == ([], [])


@pytest.fixture(scope="module")
def pod(apiserver: ApiServer, operator: Operator) -> dict[str, Any]:
    """The pod; its account and role exist, and the API server applies the rule of approvals."""
    *access, found = rendered(
        "--namespace", OWN, "--show-only", "templates/tests/stores.yaml", "--set", ",".join(VALUES)
    )
    for document in access:
        document["metadata"].pop("annotations")
        assert apiserver.request("POST", collection(apiserver, document), document).accepted
    eventually(lambda: "needs the verb approve" in _refusal_of_another_purge(apiserver, found), of=operator)
    return found


def _refusal_of_another_purge(apiserver: ApiServer, pod: dict[str, Any]) -> str:
    policy = _resources(pod, "any")["RetentionPolicy"]
    policy["metadata"]["name"] = "another"
    user = f"system:serviceaccount:{OWN}:{NAME}"
    answer = apiserver.request(
        "POST", f"{url('RetentionPolicy')}&dryRun=All".replace("default", OWN), policy, user=user
    )
    return str(answer.body.get("message", ""))


def _arguments(pod: dict[str, Any], run: str) -> list[str]:
    """The arguments as a kubelet completes them."""
    return [one.replace("$(RUN)", run) for one in pod["spec"]["containers"][0]["args"]]


def _resources(pod: dict[str, Any], run: str) -> dict[str, dict[str, Any]]:
    (steps,) = _arguments(pod, run)
    return {one["kind"]: one for step in json.loads(steps) for one in step["resources"]}


def _test(apiserver: ApiServer, pod: dict[str, Any], run: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    path = f"/api/v1/namespaces/{OWN}/serviceaccounts/{NAME}/token"
    token = apiserver.request("POST", path, {"spec": {}}).body["status"]["token"]
    config = json.loads(apiserver.kubeconfig(folder).read_text())
    config["users"][0]["user"]["token"] = token
    (folder / "as-test").write_text(json.dumps(config))
    command = [sys.executable, *pod["spec"]["containers"][0]["command"][1:], *_arguments(pod, run)]
    environment = {**os.environ, "KUBECONFIG": str(folder / "as-test")}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_helm_test_removes_leftovers_then_makes_checks_and_removes_a_stream_a_purge_and_a_replay(
    apiserver: ApiServer, operator: Operator, spark: FakeSpark, pod: dict[str, Any], tmp_path: Path
) -> None:
    failed = _test(apiserver, pod, "one", tmp_path)
    assert failed.returncode == 1, f"{failed.stdout}{failed.stderr}"
    assert f"MessageStream {NAME} is done, with totals.stored 2 instead of totals.stored 10" in failed.stdout
    assert _left(apiserver) == [NAME, f"{NAME}-copy"]

    spark.tells = _tell
    done = _test(apiserver, pod, "two", tmp_path)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{operator.text}"
    for said in ("totals.stored 10", "purged 4", "progress.replayed 6", "and are removed"):
        assert said in done.stdout
    assert _left(apiserver) == []
    runs = [(run.document["task"]["kind"], run.table.rpartition("test/")[2]) for run in spark.launched("")]
    # The first ended before any run was granted the store of the copy.
    assert [folder for kind, folder in runs if kind == "delete"] == ["one/store", "two/store", "two/copy"]
    assert [kind for kind, folder in runs if folder.startswith("two/") and kind != "delete"] == [
        *("ingest", "purge", "replay")
    ]


def _left(apiserver: ApiServer) -> list[str]:
    kinds = ("MessageStream", "RetentionPolicy", "ReplayJob")
    found = [apiserver.request("GET", url(kind).replace("default", OWN)).body["items"] for kind in kinds]
    return [one["metadata"]["name"] for items in found for one in items]
