"""An afternoon with the operator: three tenants, one fault after the other, and what people then see of each."""

import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest
from hack import kind

from support.kind import Cluster, remove_bucket, without_operator
from support.laws import Source, check_laws, read_store
from support.records import message, records
from support.site import OPERATOR, POLICY, SECRET, STREAM, Row, Site
from support.site import site as new_site

TENANTS = ("billing", "shipping", "support")
FILE_RECORDS = 10
REMOVED = [f"m-{number}" for number in range(4)]

TABLE = """
step             tenant   kind            name   READY PHASE            REASON           MESSAGES event
installed        billing  messagestream   orders True  Idle             Ingesting        10       -
installed        shipping messagestream   orders True  Idle             Ingesting        10       -
installed        support  messagestream   orders True  Idle             Ingesting        10       -
wrong-keys       billing  messagestream   orders False Failing          StorageDenied    10       StorageDenied
right-keys       billing  messagestream   orders True  Idle             Ingesting        20       -
bucket-gone      shipping messagestream   orders False Failing          StorageMissing   10       StorageMissing
bucket-back      shipping messagestream   orders True  Idle             Ingesting        20       -
quota            support  messagestream   orders False Failing          SubmissionFailed 10       SubmissionFailed
quota-lifted     support  messagestream   orders True  Idle             Ingesting        20       -
approval-awaited support  retentionpolicy old    True  AwaitingApproval AwaitingApproval -        AwaitingApproval
approved         support  retentionpolicy old    True  Idle             Purged           -        Purged
approved         support  messagestream   orders True  Idle             Ingesting        16       -
replayed         support  replayjob       again  True  Succeeded        Replayed         -        Replayed
replayed         support  messagestream   copy   True  Idle             Waiting          16       -
node-drained     billing  messagestream   orders False Failing          Unschedulable    30       RunStopped
node-back        billing  messagestream   orders True  Running          Ingesting        40       -
uninstalled      billing  messagestream   orders True  Running          Ingesting        40       -
installed-again  billing  messagestream   orders True  Running          Ingesting        50       -
"""
WORDS = {
    "StorageDenied": "those of the Secret in storage.credentialsSecretRef: check the keys",
    "StorageMissing": "does not exist at",
    "SubmissionFailed": "exceeded quota",
    "AwaitingApproval": "approve with annotation messagestore.dev/approved-preview",
    "Unschedulable": "unschedulable",
}
"""What the message of Ready says, by its reason."""


@dataclass
class Afternoon:
    """Three tenants, each with a stream named orders, and all that has landed for them."""

    cluster: Cluster
    sites: Mapping[str, Site]
    sources: Mapping[str, str]
    """The bucket that each tenant's records arrive in."""
    files: dict[str, int] = field(default_factory=dict)

    def land(self, tenant: str) -> None:
        """Land another file for a tenant's stream."""
        number = self.files.get(tenant, 0)
        self.files[tenant] = number + 1
        with self.cluster.s3.filesystem().open_output_stream(f"{self.sources[tenant]}/orders/{number}.jsonl") as out:
            out.write(self._content(number))

    def request(self, tenant: str, run: str) -> None:
        """Request a run of a tenant's stream."""
        annotation = f"messagestore.dev/run-requested={run}"
        self.sites[tenant].kubectl("annotate", STREAM, "orders", "--overwrite", annotation)

    def landed(self, tenant: str) -> Source:
        """All that has landed for a tenant."""
        lines = [line for number in range(self.files[tenant]) for line in self._content(number).splitlines()]
        return Source(lines, message)

    def _content(self, number: int) -> bytes:
        return records(range(number * FILE_RECORDS, (number + 1) * FILE_RECORDS))


@pytest.fixture
def afternoon(cluster: Cluster) -> Iterator[Afternoon]:
    """The three tenants, before their streams."""
    with ExitStack() as held:
        sources = {name: held.enter_context(cluster.bucket(f"{name}-source")) for name in TENANTS}
        held.callback(cluster.kubectl, "uncordon", kind.NODE)
        yield Afternoon(cluster, {name: held.enter_context(new_site(cluster, name)) for name in TENANTS}, sources)


@pytest.mark.long
def test_each_step_of_an_afternoon_of_faults_shows_in_status_and_events(afternoon: Afternoon) -> None:
    steps: Mapping[str, Callable[[Afternoon], None]] = {
        "installed": _install,
        "wrong-keys": _break_keys,
        "right-keys": _mend_keys,
        "bucket-gone": _remove_bucket,
        "bucket-back": _bring_bucket_back,
        "quota": _set_quota,
        "quota-lifted": _lift_quota,
        "approval-awaited": _preview,
        "approved": _approve,
        "replayed": _replay,
        "node-drained": _drain,
        "node-back": _uncordon,
    }
    for step, act in steps.items():
        act(afternoon)
        _check(afternoon, step)
    with without_operator():
        _check(afternoon, "uninstalled", logged=False)
        afternoon.land("billing")
    _check(afternoon, "installed-again", logged=False)
    for tenant in ("billing", "shipping"):
        check_laws(read_store(afternoon.sites[tenant], "orders"), afternoon.landed(tenant))


def _install(afternoon: Afternoon) -> None:
    for tenant, site in afternoon.sites.items():
        afternoon.land(tenant)
        source = {"files": {"uri": f"s3a://{afternoon.sources[tenant]}/orders"}}
        site.apply(site.stream(trigger={"manual": {}}, source=source))
        afternoon.request(tenant, "first")


def _break_keys(afternoon: Afternoon) -> None:
    site = afternoon.sites["billing"]
    site.apply(site.secret(SECRET, "nobody", "guesses-this"))
    afternoon.land("billing")
    afternoon.request("billing", "with-wrong-keys")


def _mend_keys(afternoon: Afternoon) -> None:
    site, s3 = afternoon.sites["billing"], afternoon.cluster.s3
    site.apply(site.secret(SECRET, s3.access_key, s3.secret_key))


def _remove_bucket(afternoon: Afternoon) -> None:
    remove_bucket(afternoon.cluster.s3.filesystem(), afternoon.sources["shipping"])
    afternoon.request("shipping", "without-bucket")


def _bring_bucket_back(afternoon: Afternoon) -> None:
    afternoon.cluster.s3.filesystem().create_dir(afternoon.sources["shipping"])
    afternoon.land("shipping")


def _set_quota(afternoon: Afternoon) -> None:
    hard = {"count/sparkapplications.sparkoperator.k8s.io": "0"}
    quota: Row = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": hard}}
    quota["metadata"]["namespace"] = afternoon.sites["support"].namespace
    afternoon.sites["support"].apply(quota)
    afternoon.land("support")
    afternoon.request("support", "over-quota")


def _lift_quota(afternoon: Afternoon) -> None:
    afternoon.sites["support"].delete("resourcequota", "none")


def _preview(afternoon: Afternoon) -> None:
    site = afternoon.sites["support"]
    rules = [{"name": "some", "match": {"messageIds": REMOVED}}]
    site.apply(site.policy("old", "orders", approval="Required", rules=rules))


def _approve(afternoon: Afternoon) -> None:
    site = afternoon.sites["support"]
    (stream,) = site.status(POLICY, "old")["streams"]
    site.kubectl("annotate", POLICY, "old", f"messagestore.dev/approved-preview={stream['preview']['id']}")


def _replay(afternoon: Afternoon) -> None:
    site = afternoon.sites["support"]
    site.apply(site.stream("copy", trigger={"manual": {}}))
    site.apply(site.replay("again", "orders", destination={"stream": {"name": "copy"}}))


def _drain(afternoon: Afternoon) -> None:
    site = afternoon.sites["billing"]
    afternoon.land("billing")
    trigger = '{"spec":{"trigger":{"manual":null,"continuous":{"batchInterval":"PT2S"}}}}'
    site.kubectl("patch", STREAM, "orders", "--type=merge", "--patch", trigger)
    site.wait(STREAM, "orders", lambda status: status["table"]["messages"] == 30, "the run has stored what came")
    options = ("--pod-selector=spark-role=driver", "--delete-emptydir-data", "--force", "--timeout=180s")
    afternoon.cluster.kubectl("drain", kind.NODE, *options)


def _uncordon(afternoon: Afternoon) -> None:
    afternoon.cluster.kubectl("uncordon", kind.NODE)
    afternoon.land("billing")


def _check(afternoon: Afternoon, step: str, *, logged: bool = True) -> None:
    """Wait until all that people see is as the table has it: columns, the message, Events, and the log."""
    header, *rows = (line.split() for line in TABLE.strip().splitlines())
    for row in (dict(zip(header, cells, strict=True)) for cells in rows if cells[0] == step):
        site = afternoon.sites[row["tenant"]]
        site.until(lambda site=site, row=row: _shows(site, row), f"{step}: {row}")
        if row["event"] != "-":
            site.until(lambda site=site, row=row: row["event"] in _events(site, row), f"{step}: Event {row['event']}")
        if logged:
            line = f"name={row['name']} .*to={row['PHASE']} reason={row['REASON']}"
            site.until(lambda site=site, line=line: re.search(line, _log(site)), f"{step}: a line with {line}")


def _shows(site: Site, row: Mapping[str, str]) -> bool:
    """Whether `kubectl get -o wide` prints the row, and the message has the words of its reason."""
    shown = _columns(site, row["kind"], row["name"])
    told = all(shown.get(name) == row[name] for name in ("READY", "PHASE", "REASON", "MESSAGES") if row[name] != "-")
    conditions = site.status(row["kind"], row["name"]).get("conditions", [{}])
    return told and WORDS.get(row["REASON"], "") in conditions[0].get("message", "")


def _columns(site: Site, kind_: str, name: str) -> dict[str, str]:
    try:
        header, line = site.kubectl("get", kind_, name, "--output", "wide").splitlines()
    except (subprocess.CalledProcessError, ValueError):
        return {}
    starts = [found.start() for found in re.finditer(r"\S+", header)]
    ends = [*starts[1:], None]
    return {header[at:end].strip(): line[at:end].strip() for at, end in zip(starts, ends, strict=True)}


def _events(site: Site, row: Mapping[str, str]) -> list[str]:
    found = site.items("events", f"--field-selector=involvedObject.name={row['name']}")
    return [event["reason"] for event in found if event["involvedObject"]["kind"].lower() == row["kind"]]


def _log(site: Site) -> str:
    """The operator's lines about the resources of a namespace."""
    lines = site.cluster.kubectl("logs", *OPERATOR, "--tail=-1").splitlines()
    return "\n".join(line for line in lines if f"namespace={site.namespace} " in line and "state changed" in line)
