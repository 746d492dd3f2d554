"""Runs in pods: what one with nothing new costs, what a run each minute asks of S3, what more executors change.

And what a continuous replay takes while it waits: ``python -m tests.perf.on_kind [--keep FOLDER] [nothing] [minutes]
[executors] [idle]`` needs the cluster of ``make cluster``, and prints a table for each measurement. It switches on
Spark's event log and the S3 server's access log, and both off again. The access log has all requests, but not the bytes
of an object that the server sends: those are counted at the network interface of its pod, with the protocol's own
bytes. What other pods receive and send is counted at theirs.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from hack import docker, install, kind, programs
from pyarrow import fs
from rich.console import Console
from rich.table import Table
from tests.perf import data, ingest_sides

from messagestore_core.store.folder import FORMAT_VERSION
from messagestore_core.store.layout import MARKER

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.kind import REPOSITORY, Cluster, Resource
from support.site import REPLAY, STREAM, Site
from support.site import site as new_site

RUNS, NEW = 6, 1_000
"""Measured runs of a stream, after a first one; records that arrive before each."""
STORE, MANY = 10_000_000, 2_000_000
EXECUTORS = (1, 3)
_SMALL = {"cores": 1, "memory": "1g"}
_PODS = "/var/lib/kubelet/pods"
_TMP = "volumes/kubernetes.io~empty-dir/tmp"
_EVENTS = "/var/lib/kubelet/perf"
_EVENT_LOG = {
    "spark.eventLog.enabled": "true",
    "spark.eventLog.dir": "file:///tmp",
    "spark.eventLog.rolling.enabled": "false",
    "spark.eventLog.compress": "false",
}
_REQUEST = re.compile(r"^\S+ \S+ \[([^ ]+) \S+ (\S+) \S+ \S+ s3_(\w+) (\S+) ")
_LIBRARIES = {
    # Each has its own release of the same client.
    "object_store/0.13": "delta-rs",
    "object_store/0.14": "obstore",
    "Hadoop": "Hadoop",
    "aws-sdk-cpp": "pyarrow",
}
_LINE = re.compile(r"^(\S+) INFO \S+ (open|ingest)$", re.MULTILINE)

# Links event logs, which otherwise end with their pods, and prints what the S3 server's pod has sent.
_WATCH = f"""
server=$(pgrep -o versitygw); mkdir -p {_EVENTS}
while true; do
  for log in {_PODS}/*/{_TMP}/spark-*; do [ -f "$log" ] && ln -f "$log" {_EVENTS}/$(echo "$log" | cut -d/ -f6); done
  echo $(date +%s.%N) $(grep eth0 /proc/$server/net/dev)
  read -t 0.5 line; [ $? -eq 1 ] && break
done 2>/dev/null
rm -rf {_EVENTS}
"""
_SUBMITTING = "awk '{ print ($14 + $15 + $16 + $17) / 100 }' /proc/$(pgrep -xo spark-operator)/stat"
_RECEIVER = "receiver.example"
"""A host to which nothing is sent."""
_SETTLED, _WAITED = 60, 300
"""Seconds until a continuous replay rests; for which it is measured then."""
_USAGE = "cat /sys/fs/cgroup/cpuacct/cpuacct.usage /sys/fs/cgroup/memory/memory.usage_in_bytes && "
_USAGE += "awk '$1 == \"total_inactive_file\" { print $2 }' /sys/fs/cgroup/memory/memory.stat"
_COUNTERS = "while true; do grep eth0 /proc/net/dev; cat /sys/fs/cgroup/cpuacct/cpuacct.usage; sleep 1; done"


@dataclass
class Pod:
    """A pod of a run, and what was read of it while it ran."""

    name: str
    address: str
    counters: "subprocess.Popen[str]"
    file: Path

    def end(self) -> tuple[int, int, float]:
        """Bytes received, bytes sent, CPU-seconds, by the last lines."""
        self.counters.terminate()
        self.counters.wait()
        lines = self.file.read_text().splitlines()
        network = [line.split(":")[1].split() for line in lines if ":" in line]
        cpu = [int(line) for line in lines if line.isdigit()]
        return (int(network[-1][0]), int(network[-1][8]), cpu[-1] / 1e9 if cpu else 0.0) if network else (0, 0, 0.0)


class Request(NamedTuple):
    """A request to the S3 server."""

    at: float
    client: str
    """Its address."""
    operation: str
    key: str
    library: str


@dataclass
class Run:
    """An ended run."""

    name: str
    application: Resource
    driver: Resource
    report: dict[str, Any]
    log: str
    events: list[dict[str, Any]]
    pods: dict[str, tuple[int, int, float]]
    addresses: dict[str, str]
    requests: "list[Request]" = field(default_factory=list)
    sent: int = 0
    """Bytes that the S3 server's pod sent."""

    @property
    def begun(self) -> float:
        """When the driver's container started, in whole seconds."""
        return _time(self._container["startedAt"])

    @property
    def ended(self) -> float:
        """When it ended, in whole seconds."""
        return _time(self._container["finishedAt"])

    @property
    def created(self) -> float:
        """When the operator created the application, in whole seconds."""
        return _time(self.application["metadata"]["creationTimestamp"])

    @property
    def _container(self) -> Any:
        return self.driver["status"]["containerStatuses"][0]["state"]["terminated"]

    def first(self, event: str, key: str, after: float = 0.0) -> float | None:
        """The time of the first event of a kind; None: there was none."""
        times = (one[key] / 1000 for one in self.events if one["Event"] == f"SparkListener{event}")
        return next((at for at in times if at >= after), None)

    def steps(self) -> dict[str, float]:
        """When the log says that a step began."""
        return {step: _time(at) for at, step in reversed(_LINE.findall(self.log))}

    def tasks(self) -> list[dict[str, Any]]:
        """The tasks that ended."""
        return [one for one in self.events if one["Event"] == "SparkListenerTaskEnd"]


class Watch:
    """What is written down about the cluster while runs come and go."""

    def __init__(self, site: Site, machine: docker.Docker, work: Path, held: ExitStack) -> None:
        self.site, self._machine, self._work = site, machine, work
        self._seen: set[str] = set()
        self._file = work / "sent"
        output = held.enter_context(self._file.open("w"))
        command = ["docker", "exec", "--interactive", kind.NODE, "bash", "-c", _WATCH]
        loop = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, env=_environment(machine))
        held.callback(lambda: loop.communicate(timeout=10))

    def next_run(self, of: str, seconds: float = 900) -> Run:
        """Wait until a run of a resource has ended that was not seen before."""
        pods: dict[str, Pod] = {}
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = self.site.items("pod")
            for pod in found:
                self._follow(pod, pods)
            drivers = [pod for pod in found if pod["metadata"]["labels"].get("spark-role") == "driver"]
            for driver in drivers:
                name = driver["metadata"]["name"].removesuffix("-driver")
                if (
                    name.startswith(f"{of}-")
                    and name not in self._seen
                    and driver["status"]["phase"] in ("Succeeded", "Failed")
                ):
                    self._seen.add(name)
                    return self._read(name, driver, pods)
            time.sleep(1.5)
        raise AssertionError(f"no run ended\n{self.site.story()}")

    def submitting(self) -> float:
        """CPU-seconds that the Spark operator's controller and what it has started have taken."""
        return float(self._machine.run("exec", kind.NODE, "bash", "-c", _SUBMITTING))

    def _follow(self, pod: Resource, pods: dict[str, Pod]) -> None:
        name, labels, status = pod["metadata"]["name"], pod["metadata"]["labels"], pod["status"]
        container = f"spark-kubernetes-{labels.get('spark-role')}"
        states = [one.get("state", {}) for one in status.get("containerStatuses", [])]
        if name in pods or not any("running" in state for state in states):
            return
        file = self._work / f"{name}.counters"
        command = [programs.program("kubectl"), "--kubeconfig", self.site.cluster.kubeconfig]
        command += ["--namespace", self.site.namespace, "exec", name, "--container", container, "--"]
        with file.open("w") as output:
            counters = subprocess.Popen(
                [*command, "sh", "-c", _COUNTERS], stdout=output, stderr=subprocess.DEVNULL, text=True
            )
        pods[name] = Pod(name, status["podIP"], counters, file)

    def _read(self, name: str, driver: Resource, pods: dict[str, Pod]) -> Run:
        uid = driver["metadata"]["uid"]
        # A run without Spark has no events.
        events = self._machine.run("exec", kind.NODE, "bash", "-c", f"cat {_EVENTS}/{uid} || true")
        application = self.site.find("sparkapplication", name)
        config_map = self.site.find("configmap", name)
        log = self.site.kubectl("logs", f"{name}-driver")
        assert application is not None
        for part, text in {"events": events, "log": log, "driver.json": json.dumps(driver)}.items():
            (self._work / f"{name}.{part}").write_text(text)
        report = json.loads(config_map["data"]["report.json"])
        (self._work / f"{name}.report.json").write_text(json.dumps(report))
        assert report["state"] == "Succeeded", report
        return Run(
            name=name,
            application=application,
            driver=driver,
            report=report,
            log=log,
            events=[json.loads(line) for line in events.splitlines()],
            pods={pod.name: pod.end() for pod in pods.values()},
            # A driver that ends within a second is hardly seen while it runs.
            addresses={pod.address: pod.name for pod in pods.values()} | {driver["status"]["podIP"]: f"{name}-driver"},
        )

    def requests(self) -> list[Request]:
        """All requests to the S3 server so far."""
        uid = kind.kubectl(*_S3, "get", "pods", "--selector", "app=s3", "-o", "jsonpath={.items[0].metadata.uid}")
        text = self._machine.run("exec", kind.NODE, "cat", f"{_PODS}/{uid}/{_TMP}/access.log")
        (self._work / "access.log").write_text(text)
        return requests_of(text)

    def complete(self, runs: list[Run]) -> None:
        """Add to each run what the S3 server tells."""
        requests = self.requests()
        samples = [line.split() for line in self._file.read_text().splitlines()]
        sent = [(float(one[0]), int(one[10])) for one in samples if len(one) > 10]
        for run in runs:
            run.requests = [one for one in requests if run.begun <= one.at <= run.ended and one.client in run.addresses]
            run.sent = _at(sent, run.ended + 1) - _at(sent, run.begun - 1)


def requests_of(log: str) -> list[Request]:
    """The requests in an access log."""
    return [_request(found, line) for line in log.splitlines() if (found := _REQUEST.match(line))]


def _request(found: re.Match[str], line: str) -> Request:
    at = datetime.strptime(found[1], "%d/%B/%Y:%H:%M:%S").replace(tzinfo=UTC).timestamp()
    library = next((name for sign, name in _LIBRARIES.items() if sign in line), "others")
    return Request(at, found[2], found[3], found[4], library)


_S3 = ("--namespace", install.STORAGE_NAMESPACE)


def _at(samples: list[tuple[float, int]], moment: float) -> int:
    return next((value for at, value in samples if at >= moment), samples[-1][1])


def _time(text: str) -> float:
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _environment(machine: docker.Docker) -> dict[str, str]:
    return {**os.environ, **machine.environment}


def each_minute(watch: Watch, name: str, count: int) -> Iterator[Run]:
    """Runs of a stream each minute, into a store with so many messages; the first is not measured."""
    site = watch.site
    if count:
        _upload(site, name, count)
    fields = {one: {"path": path} for one, path in ingest_sides.PATHS.items()}
    stream = site.stream(name, envelope={"format": "Custom", "fields": fields})
    stream["spec"]["trigger"] = {"schedule": {"cron": "* * * * *"}}
    for number in range(RUNS + 1):
        records = data.records(NEW, 300_000_000 + number * NEW, number)
        site.land(f"{name}/{number:03}.jsonl", records.read_bytes())
        if number == 0:
            site.apply(stream)
        run = watch.next_run(name)
        Console().print(f"{run.name}: {run.report['outcome']['counts']}")
        if number:
            yield run
    site.delete(STREAM, name)


def _upload(site: Site, name: str, count: int) -> None:
    """A store with messages, owned by the stream."""
    with tempfile.TemporaryDirectory(prefix="messagestore-perf-", dir=data.folder()) as work:
        data.copy(data.base(_no_session, count), Path(work) / "store")
        files = site.cluster.s3.filesystem()
        fs.copy_files(
            f"{work}/store",
            f"{site.bucket}/{name}",
            source_filesystem=fs.LocalFileSystem(),
            destination_filesystem=files,
            chunk_size=64 << 20,
        )
    owner = {"namespace": site.namespace, "name": name}
    with files.open_output_stream(f"{site.bucket}/{name}/{MARKER}") as out:
        out.write(json.dumps({"formatVersion": FORMAT_VERSION, "owner": owner}).encode())


def _no_session() -> Any:
    raise SystemExit("there is no store to copy: make it first, with PYTHONPATH=tests python -m tests.perf")


def spans(run: Run, commits: list[float]) -> dict[str, float]:
    """Seconds of a run from the start of its driver's container, which Kubernetes tells in whole seconds."""
    steps = run.steps()
    # A run's first commit claims the table; its last one is the batch. A container's end has no fractions of a second.
    commit = max(at for at in commits if run.begun <= at < run.ended + 1)
    moments = {
        "driver's container": run.begun,
        "Python": _time(run.report["startedAt"]),
        "Spark's context": run.first("ApplicationStart", "Timestamp"),
        "executor registered": run.first("ExecutorAdded", "Timestamp"),
        "store claimed and checked": steps["open"],
        "store open": steps["ingest"],
        "first job of the batch": run.first("JobStart", "Submission Time", steps["ingest"]),
        "commit": commit,
        "last report": _time(run.report["finishedAt"]),
        "container ended": run.ended,
    }
    reached = {name: at for name, at in moments.items() if at is not None}
    return {
        **{later: reached[later] - reached[earlier] for earlier, later in pairwise(reached)},
        "from driver start to commit": commit - run.begun,
        "from application created to container ended": run.ended - run.created,
        "Spark jobs": sum(one["Event"] == "SparkListenerJobStart" for one in run.events),
        "CPU-seconds of the pods": sum(cpu for _, _, cpu in run.pods.values()),
    }


def asked(run: Run) -> dict[str, float]:
    """What a run asked of the S3 server."""
    operations = Counter(one.operation for one in run.requests)
    libraries = Counter(one.library for one in run.requests)
    folders = Counter(_folder(one.key) for one in run.requests)
    return {
        "requests": len(run.requests),
        "of these by the driver": _by_driver(run),
        **{f"  {operation}": number for operation, number in operations.most_common()},
        **{f"  by {library}": number for library, number in libraries.most_common()},
        **{f"  below {folder}": number for folder, number in folders.most_common()},
        "MB sent by the S3 server": run.sent / 1e6,
    }


def _by_driver(run: Run) -> int:
    return sum(run.addresses[one.client].endswith("-driver") for one in run.requests)


def _folder(key: str) -> str:
    first, _, rest = key.partition("/")
    return rest.partition("/")[0] if rest and first != "landing" else first


def commits_of(site: Site, store: str) -> list[float]:
    """The times of all commits on messages."""
    history = site.table(f"{store}/messages").history()
    return sorted(commit["timestamp"] / 1000 for commit in history)


def minutes(watch: Watch) -> None:
    """A run each minute, of a large store and of an empty one."""
    columns: dict[str, list[dict[str, float]]] = {}
    for name, count in {"large": STORE, "small": 0}.items():
        runs = list(each_minute(watch, name, count))
        commits = commits_of(watch.site, name)
        watch.complete(runs)
        columns[f"{count:,} messages"] = [{**spans(run, commits), **asked(run)} for run in runs]
        (watch._work / f"{name}.json").write_text(json.dumps(columns[f"{count:,} messages"], indent=1))
    table = Table("medians; minimum to maximum", *columns)
    names = dict.fromkeys(name for found in columns.values() for one in found for name in one)
    for name in names:
        table.add_row(name, *(_spread([one.get(name, 0) for one in found]) for found in columns.values()))
    each = (", ".join(f"{one['requests']:,.0f}" for one in found) for found in columns.values())
    table.add_row("requests, run by run", *each)
    Console(width=160).print(table)


def nothing(watch: Watch) -> None:
    """Runs with nothing new, after one that has stored records; with the CPU that submitting them takes."""
    site, name = watch.site, "nothing"
    site.land(f"{name}/1.jsonl", data.records(NEW, 300_000_000, 0).read_bytes())
    fields = {one: {"path": path} for one, path in ingest_sides.PATHS.items()}
    site.apply(site.stream(name, envelope={"format": "Custom", "fields": fields}))
    watch.next_run(name)
    runs, submitted = [], []
    for number in range(RUNS + 1):
        site.kubectl("annotate", STREAM, name, "--overwrite", f"messagestore.dev/run-requested=again-{number}")
        before = watch.submitting()
        run = watch.next_run(name)
        if number:
            runs.append(run)
            submitted.append(watch.submitting() - before)
    watch.complete(runs)
    figures = [
        {
            "driver's container, s": run.ended - run.begun,
            "from application created to container ended, s": run.ended - run.created,
            "CPU-seconds of the driver's container": run.report["usage"]["driverCpuSeconds"],
            "CPU-seconds of the Spark operator, which submits it": cpu,
            "pods": len(run.addresses),
            **asked(run),
        }
        for run, cpu in zip(runs, submitted, strict=True)
    ]
    table = Table("nothing new", f"median of {len(runs)}; minimum to maximum")
    for row in dict.fromkeys(row for one in figures for row in one):
        table.add_row(row, _spread([one.get(row, 0) for one in figures]))
    Console(width=160).print(table)


def idle(watch: Watch) -> None:
    """A continuous replay while nothing is committed."""
    site, name, replay = watch.site, "idle", "waiting"
    site.land(f"{name}/1.jsonl", data.records(NEW, 300_000_000, 0).read_bytes())
    fields = {one: {"path": path} for one, path in ingest_sides.PATHS.items()}
    site.apply(site.stream(name, envelope={"format": "Custom", "fields": fields}))
    watch.next_run(name)
    destination = {"http": {"url": f"https://{_RECEIVER}/"}}
    site.apply(
        site.replay(replay, name, destination=destination, start={"at": "Now"}, trigger={"continuous": {}}),
    )
    driver = site.until(lambda: _running_driver(site, replay), "the replay's driver runs")
    time.sleep(_SETTLED)
    begun, (cpu_before, _) = time.time(), _usage(site, driver)
    time.sleep(_WAITED)
    ended, (cpu, memory) = time.time(), _usage(site, driver)
    address = driver["status"]["podIP"]
    requests = [one for one in watch.requests() if one.client == address and begun <= one.at <= ended]
    table = Table("a continuous replay that waits", f"over {_WAITED} s")
    table.add_row("cores", f"{(cpu - cpu_before) / (ended - begun):.4f}")
    table.add_row("memory, MiB", f"{memory / (1 << 20):.0f}")
    table.add_row("requests a second", f"{len(requests) / (ended - begun):.2f}")
    for (operation, folder), count in Counter((one.operation, _folder(one.key)) for one in requests).most_common():
        table.add_row(f"  {operation} below {folder}", f"{count / (ended - begun):.2f}")
    Console(width=120).print(table)
    site.delete(REPLAY, replay)


def _running_driver(site: Site, replay: str) -> Resource | None:
    drivers = site.items("pod", "--selector=spark-role=driver", "--field-selector=status.phase=Running")
    return next((pod for pod in drivers if pod["metadata"]["name"].startswith(f"{replay}-")), None)


def _usage(site: Site, pod: Resource) -> tuple[float, int]:
    """CPU-seconds of a driver's container so far; bytes of its memory, without those of files that may go."""
    container = "--container=spark-kubernetes-driver"
    found = site.kubectl("exec", pod["metadata"]["name"], container, "--", "sh", "-c", _USAGE).split()
    nanoseconds, used, files = map(int, found)
    return nanoseconds / 1e9, used - files


def _spread(figures: list[float]) -> str:
    return f"{statistics.median(figures):,.2f}; {min(figures):,.2f} to {max(figures):,.2f}"


def executors(watch: Watch) -> None:
    """One executor and several, for ingest, replay and scrub."""
    site = watch.site
    site.cluster.s3.filesystem().create_dir(f"{site.bucket}/landing/many")
    fs.copy_files(
        str(data.records(MANY, 100_000_000, 0).parent),
        f"{site.bucket}/landing/many",
        source_filesystem=fs.LocalFileSystem(),
        destination_filesystem=site.cluster.s3.filesystem(),
        chunk_size=64 << 20,
    )
    fields = {one: {"path": path} for one, path in ingest_sides.PATHS.items()}
    runs: dict[str, Run] = {}
    for count in EXECUTORS:
        name, spark = f"by-{count}", {"executor": {**_SMALL, "instances": count}}
        source = {"files": {"uri": site.uri("landing/many")}}
        site.apply(site.stream(name, source=source, envelope={"format": "Custom", "fields": fields}, spark=spark))
        runs[f"ingest, {count}"] = watch.next_run(name)
        site.apply(site.replay(f"replay-{count}", name, spark=spark))
        runs[f"replay, {count}"] = watch.next_run(f"replay-{count}")
        rules, scrub = [{"name": "all", "maxAge": "P1D"}], {"payloadPaths": ["$.customer.name"]}
        site.apply(site.policy(f"scrub-{count}", name, rules=rules, action="Scrub", scrub=scrub, spark=spark))
        runs[f"scrub, {count}"] = watch.next_run(f"scrub-{count}")
    watch.complete(list(runs.values()))
    figures = {name: placed(run) for name, run in sorted(runs.items())}
    (watch._work / "executors.json").write_text(json.dumps(figures, indent=1))
    table = Table("run, executors", *figures)
    for row in dict.fromkeys(row for found in figures.values() for row in found):
        table.add_row(row, *(found.get(row, "") for found in figures.values()))
    Console(width=200).print(table)


def placed(run: Run) -> dict[str, str]:
    """Where a run's tasks ran, and what went through its driver."""
    tasks, by = run.tasks(), Counter(one["Task Info"]["Executor ID"] for one in run.tasks())
    metrics = [one["Task Metrics"] for one in tasks if one.get("Task Metrics")]
    (driver,) = (found for name, found in run.pods.items() if name.endswith("-driver"))
    others = [found for name, found in run.pods.items() if not name.endswith("-driver")]
    first = run.first("ApplicationStart", "Timestamp") or run.begun
    return {
        "driver's container, s": f"{run.ended - run.begun:.0f}",
        "from Spark's context to the last report, s": f"{_time(run.report['finishedAt']) - first:.1f}",
        "executors registered": str(sum(one["Event"] == "SparkListenerExecutorAdded" for one in run.events)),
        "jobs": str(sum(one["Event"] == "SparkListenerJobStart" for one in run.events)),
        "tasks of each executor": ", ".join(str(number) for _, number in sorted(by.items())),
        "seconds of tasks": f"{sum(one['Executor Run Time'] for one in metrics) / 1e3:.1f}",
        "CPU-seconds of tasks": f"{sum(one['Executor CPU Time'] for one in metrics) / 1e9:.1f}",
        "CPU-seconds of the driver's pod": f"{driver[2]:.1f}",
        "CPU-seconds of the executors' pods": ", ".join(f"{cpu:.1f}" for _, _, cpu in others),
        "results of tasks, MB": f"{sum(one['Result Size'] for one in metrics) / 1e6:.1f}",
        "shuffle written, MB": f"{sum(map(_shuffled, metrics)) / 1e6:.1f}",
        "driver received, MB": f"{driver[0] / 1e6:.1f}",
        "driver sent, MB": f"{driver[1] / 1e6:.1f}",
        "executors received, MB": ", ".join(f"{found[0] / 1e6:.1f}" for found in others),
        "executors sent, MB": ", ".join(f"{found[1] / 1e6:.1f}" for found in others),
        "S3 requests of the driver": str(_by_driver(run)),
        "S3 requests of the executors": str(len(run.requests) - _by_driver(run)),
        "S3 server sent, MB": f"{run.sent / 1e6:.1f}",
    }


def _shuffled(metrics: dict[str, Any]) -> int:
    return int(metrics["Shuffle Write Metrics"]["Shuffle Bytes Written"])


@contextmanager
def _logging(work: Path) -> Iterator[None]:
    """With Spark's event log and the S3 server's access log."""
    values = work / "values.yaml"
    values.write_text(yaml.safe_dump({"spark": {"conf": _EVENT_LOG}, "tenancy": {"http": {"hosts": [_RECEIVER]}}}))
    up = [sys.executable, "-m", "hack.cluster", "up"]
    subprocess.run([*up, "--values", values], cwd=REPOSITORY, check=True)
    args = ["--port", ":7070", "--access-log", "/tmp/access.log", "posix", "/data"]
    _serve(args)
    try:
        yield
    finally:
        _serve([args[0], args[1], *args[4:]])
        subprocess.run(up, cwd=REPOSITORY, check=True)


def _serve(args: list[str]) -> None:
    change = [{"op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}]
    kind.kubectl(*_S3, "patch", "deployment", "s3", "--type", "json", "--patch", json.dumps(change))
    kind.kubectl(*_S3, "rollout", "status", "deployment/s3", "--timeout=120s")


def main() -> None:
    """Run the command line."""
    measurements = {"nothing": nothing, "minutes": minutes, "executors": executors, "idle": idle}
    parser = argparse.ArgumentParser(prog="python -m tests.perf.on_kind", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", nargs="*", help=", ".join(measurements))
    parser.add_argument("--keep", type=Path, help="a folder for logs")
    arguments = parser.parse_args()
    machine = docker.running()
    if machine is None or not kind.healthy():
        raise SystemExit("there is no cluster: make cluster")
    cluster = Cluster(kind.kubeconfig())
    with ExitStack() as held:
        work = arguments.keep or Path(held.enter_context(tempfile.TemporaryDirectory()))
        work.mkdir(parents=True, exist_ok=True)
        held.enter_context(_logging(work))
        site = held.enter_context(new_site(cluster, "perf"))
        watch = Watch(site, machine, work, held)
        for what in arguments.what or measurements:
            measurements[what](watch)


if __name__ == "__main__":
    main()
