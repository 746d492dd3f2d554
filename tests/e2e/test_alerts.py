"""Faults in the cluster raise the chart's alerts in a real Prometheus and Alertmanager; runbooks say what ends them."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hack import install
from hack.programs import program

from support.alerts import quick_rules, wait_for_alerts
from support.documents import commands, run_script
from support.kind import WAIT_SECONDS, remove_bucket, upgraded
from support.prometheus import Alertmanager, running_alertmanager
from support.records import records
from support.scraping import scraping_operator
from support.site import POLICY, REPLAY, STREAM, Site

LEASE = f"{install.OPERATOR_RELEASE}-message-store-operator-leader"
OWN = f"--namespace={install.OPERATOR_NAMESPACE}"
STORED, AT_MOST = 20, 63
"""How many messages of invoices can be stored at first, and the bytes of a payload at most."""
OF_RESOURCES = {"StreamStalled", "DeadLetterSpike", "DeadLettersAgeing", "ApprovalWaiting", "ReplayFailing"}


@pytest.fixture
def alerts(site: Site, tmp_path: Path) -> Iterator[Alertmanager]:
    """An Alertmanager that gets the alerts of the operator in the cluster, each of whose pods is scraped."""
    with (
        running_alertmanager(tmp_path / "alertmanager") as server,
        scraping_operator(site, tmp_path, rules=quick_rules("90s"), alertmanager=server.port),
    ):
        yield server


@pytest.fixture
def impatient() -> Iterator[None]:
    """The operator calls a resource stalled as soon as it fails, and tries again when it is asked to."""
    with upgraded('runs.stalledAfter="PT1S"', 'runs.backoffBase="PT1M"'):
        yield


@pytest.mark.long
@pytest.mark.usefixtures("impatient")
def test_faults_raise_alerts_and_what_runbooks_say_ends_them(
    site: Site, bucket: str, alerts: Alertmanager, tmp_path: Path
) -> None:
    _until(site, alerts, set())
    _apply_everything(site, bucket)
    remove_bucket(site.cluster.s3.filesystem(), bucket)
    _run(site, "clicks")
    _until(site, alerts, OF_RESOURCES - {"DeadLetterSpike", "DeadLettersAgeing"})
    both = {"clicks", "orders"}
    site.until(lambda: alerts.named("MessageStoreStreamStalled", site.namespace) == both, "both streams are stalled")
    site.land("invoices/2.jsonl", _too_large())
    _run(site, "invoices")
    _until(site, alerts, OF_RESOURCES)

    printed = {name: _follow(site, tmp_path, f"MessageStore{name}") for name in sorted(OF_RESOURCES)}
    assert "refuses the credentials" in printed["StreamStalled"]
    assert ": 4 messages" in printed["ApprovalWaiting"]
    assert printed["ReplayFailing"].startswith("StorageMissing: ")
    _mend(site, bucket)
    _until(site, alerts, set())

    with _no_leader(site):
        _until(site, alerts, {"OperatorHasNoLeader"})
        assert "gone" in _follow(site, tmp_path, "MessageStoreOperatorHasNoLeader")
    _until(site, alerts, set())


def _until(site: Site, alerts: Alertmanager, names: set[str]) -> None:
    """Wait until these alerts fire and no others about the site or the operator."""
    wait_for_alerts(alerts, names, WAIT_SECONDS, (site.namespace, install.OPERATOR_NAMESPACE))


def _apply_everything(site: Site, bucket: str) -> None:
    """Two streams that can't go on, one that can, a policy that waits and a replay that fails."""
    site.apply(site.secret("wrong", "nobody", "knows"))
    site.apply(site.stream(storage=site.storage("wrong")))
    with site.cluster.s3.filesystem().open_output_stream(f"{bucket}/1.jsonl") as out:
        out.write(records(range(STORED)))
    source = {"files": {"uri": f"s3a://{bucket}"}}
    site.apply(site.stream("clicks", source=source))
    site.wait(STREAM, "clicks", lambda status: status.get("totals", {}).get("stored") == STORED, "all is stored")

    site.land("invoices/1.jsonl", records(range(STORED)))
    site.apply(site.stream("invoices", payload={"maxSize": str(AT_MOST)}))
    site.wait(STREAM, "invoices", lambda status: status.get("totals", {}).get("stored") == STORED, "all is stored")
    rules = [{"name": "ordered", "match": {"streamNames": ["order-0"]}}]
    site.apply(site.policy("old-orders", "invoices", approval="Required", rules=rules))
    files = {"uri": "s3a://nowhere/again", "storage": site.storage()}
    site.apply(site.replay("orders-again", "invoices", destination={"files": files}))


def _run(site: Site, name: str) -> None:
    """Ask for a run of a stream."""
    site.kubectl("annotate", "--overwrite", STREAM, name, f"messagestore.dev/run-requested={time.time()}")


def _mend(site: Site, bucket: str) -> None:
    """Do what the runbooks say in words; their commands have run."""
    s3 = site.cluster.s3
    site.apply(site.secret("wrong", s3.access_key, s3.secret_key))
    s3.filesystem().create_dir(bucket)
    site.kubectl("patch", STREAM, "invoices", "--type=merge", "--patch", '{"spec":{"payload":{"maxSize":"1Ki"}}}')
    stream = {"stream": {"name": "invoices"}}
    site.apply(site.replay("redrive", "invoices", origin="DeadLetters", destination=stream))
    site.delete(REPLAY, "orders-again")
    site.apply(site.replay("orders-once-more", "invoices"))
    for name in ("clicks", "orders"):
        _run(site, name)
    site.wait(POLICY, "old-orders", lambda status: status.get("purged") == 4, "what was approved is gone")


def _follow(site: Site, folder: Path, heading: str) -> str:
    """What the commands of a runbook print, for somebody who works in the site's namespace."""
    config = folder / "kubeconfig"
    config.write_text(site.cluster.kubectl("config", "view", "--raw", "--flatten"))
    kubectl = program("kubectl")
    run = f'export KUBECONFIG="{config}" PATH="{kubectl.parent}:$PATH"\n'
    here = f"kubectl config set-context --current --namespace={site.namespace} > /dev/null\n"
    done = run_script(run + here + "\n".join(commands("docs/runbooks.md", heading)), folder, folder)
    assert done.returncode == 0, f"{heading}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def _no_leader(site: Site) -> Iterator[None]:
    """The Lease names a replica that is gone, until somebody deletes it."""
    holder = {"spec": {"holderIdentity": "gone", "leaseDurationSeconds": 3600}}
    site.cluster.kubectl(OWN, "patch", "lease", LEASE, "--type=merge", "--patch", json.dumps(holder))
    try:
        yield
    finally:
        site.cluster.kubectl(OWN, "delete", "lease", LEASE)


def _too_large() -> bytes:
    """As many records again as were stored, with payloads that the stream doesn't take at first."""
    return records(range(STORED, 2 * STORED)).replace(b'"payload":{', b'"payload":{"more":"' + b"x" * AT_MOST + b'",')
