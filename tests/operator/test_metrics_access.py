"""With authentication, only users with the cluster's right to the URL get metrics, over TLS."""

import ssl
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest

from support.apiserver import ApiServer
from support.certificates import certify
from support.installed import ACCOUNT, installed_chart
from support.launches import stream
from support.operators import FAST, Operator, eventually, running_operator
from support.waiting import scaled

OWN = "metrics-access"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def operator(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Operator, Path]]:
    """An operator with the chart's rights, and the CA of its certificate."""
    folder = tmp_path_factory.mktemp("metrics")
    authority, certificate, key = certify(folder)
    certificate.rename(folder / "tls.crt")
    key.rename(folder / "tls.key")
    assert apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": OWN}}).accepted
    with installed_chart(apiserver, OWN, folder, "metrics.authentication=true") as chart:
        metrics = {**chart.settings["metrics"], "certificates": str(folder)}
        settings = {**chart.settings, **FAST, "metrics": metrics}
        with running_operator(apiserver, folder, settings, chart.kubeconfig) as started:
            eventually(lambda: started.get("/healthz")[0] == 200, of=started)
            yield started, authority


def test_metrics_are_served_only_to_tokens_that_a_role_allows(
    apiserver: ApiServer, operator: tuple[Operator, Path]
) -> None:
    stranger, prometheus = (_token(apiserver, name) for name in ("stranger", "prometheus"))
    subject = {"kind": "ServiceAccount", "name": "prometheus", "namespace": OWN}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": f"{ACCOUNT}-metrics"}
    binding = {"metadata": {"name": "prometheus"}, "roleRef": role, "subjects": [subject]}
    assert apiserver.request("POST", f"{RBAC}/clusterrolebindings", binding).accepted
    eventually(lambda: _status(operator, f"Bearer {prometheus}") == 200, of=operator[0])
    others = (None, "Bearer ", "Bearer not-a-token", f"Basic {prometheus}", f"Bearer {stranger}")
    assert [_status(operator, one) for one in others] == [401, 401, 401, 401, 403]
    assert operator[0].get("/metrics")[0] == 0, "there is no way without TLS"


def test_requests_with_unknown_tokens_do_not_slow_the_operator(
    apiserver: ApiServer, operator: tuple[Operator, Path]
) -> None:
    ended = threading.Event()

    def guess(guesser: int) -> list[int]:
        answers = []
        for number in count():
            if ended.is_set():
                return answers
            answers.append(_status(operator, f"Bearer guess-{guesser}-{number}"))
        raise AssertionError

    with ThreadPoolExecutor(8) as pool:
        guesses = [pool.submit(guess, guesser) for guesser in range(8)]
        try:
            until = time.monotonic() + 3
            for number in count():
                _is_reconciled(apiserver, f"during-{number}", operator[0])
                if time.monotonic() > until:
                    break
        finally:
            ended.set()
    answers = Counter(status for one in guesses for status in one.result())
    assert set(answers) == {401, 429}
    assert answers[401] <= 10 + 5 * scaled(6), "a burst, and five a second"


def _is_reconciled(server: ApiServer, name: str, operator: Operator) -> None:
    """Create a stream, and wait until the operator has given it a status."""
    document = stream(name, namespace=OWN, trigger={"schedule": {"cron": "0 0 1 1 *"}}).to_dict()
    for given in ("uid", "generation"):
        del document["metadata"][given]
    streams = f"/apis/messagestore.dev/v1alpha1/namespaces/{OWN}/messagestreams"
    answer = server.request("POST", streams, document)
    assert answer.accepted, answer.body
    eventually(lambda: server.request("GET", f"{streams}/{name}").body.get("status"), 5, operator)


def _token(server: ApiServer, name: str) -> str:
    accounts = f"/api/v1/namespaces/{OWN}/serviceaccounts"
    assert server.request("POST", accounts, {"metadata": {"name": name}}).accepted
    answer = server.request("POST", f"{accounts}/{name}/token", {"spec": {"expirationSeconds": 3600}})
    assert answer.accepted, answer.body
    token: str = answer.body["status"]["token"]
    return token


def _status(operator: tuple[Operator, Path], authorization: str | None) -> int:
    started, authority = operator
    headers = {"Authorization": authorization} if authorization else {}
    request = urllib.request.Request(f"https://127.0.0.1:{started.metrics_port}/metrics", headers=headers)
    try:
        context = ssl.create_default_context(cafile=str(authority))
        with urllib.request.urlopen(request, timeout=scaled(10), context=context) as answer:
            assert b"messagestore_operator" in answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
