"""Sees all runs and drivers of a namespace during a test, even across restarts of the API server."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from kubernetes import client, watch

from support.kind import Cluster

_GROUP, _VERSION, _PLURAL = "sparkoperator.k8s.io", "v1beta2", "sparkapplications"


class Witness:
    """Watches while the `with` block lasts; `launched` and `together` have what it saw."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._api, self._namespace = cluster.api, namespace
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._go_on, args=(look,), daemon=True) for look in (self._runs, self._drivers)
        ]
        self.launched: dict[str, set[str]] = defaultdict(set)
        """The uids of the applications of each run, by name."""
        self.pods: dict[str, set[str]] = defaultdict(set)
        """The uids of the driver pods of each run."""
        self.together: set[frozenset[str]] = set()
        """Groups of runs whose drivers were seen alive at the same time."""
        self._alive: set[str] = set()

    def __enter__(self) -> "Witness":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()

    def check(self) -> None:
        """Nothing was launched twice: each run had one application and one driver."""
        assert self.launched
        assert {run: uids for run, uids in self.launched.items() if len(uids) > 1} == {}
        assert {run: uids for run, uids in self.pods.items() if len(uids) > 1} == {}

    def _go_on(self, look: Callable[[], None]) -> None:
        while not self._ended.is_set():
            try:
                look()
            except Exception:
                # The API server was gone; watch again, beginning with existing objects.
                time.sleep(0.5)

    def _runs(self) -> None:
        objects = client.CustomObjectsApi(self._api)
        stream = watch.Watch().stream(
            objects.list_namespaced_custom_object, _GROUP, _VERSION, self._namespace, _PLURAL, timeout_seconds=30
        )
        for event in stream:
            metadata = event["object"]["metadata"]
            self.launched[metadata["name"]].add(metadata["uid"])

    def _drivers(self) -> None:
        pods = client.CoreV1Api(self._api)
        self._alive.clear()
        stream = watch.Watch().stream(
            pods.list_namespaced_pod, self._namespace, label_selector="spark-role=driver", timeout_seconds=30
        )
        for event in stream:
            pod = event["object"]
            name = pod.metadata.name
            self.pods[name].add(pod.metadata.uid)
            if event["type"] != "DELETED" and pod.status.phase == "Running":
                self._alive.add(name)
            else:
                self._alive.discard(name)
            if len(self._alive) > 1:
                self.together.add(frozenset(self._alive))
