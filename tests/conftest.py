"""What all tests have in common."""

import os

import pytest
from hypothesis import settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_CLUSTER = "tests/e2e"

# For API servers, etcd, helm, kubectl and the S3 server: by default an API server spends a quarter of its time on
# collecting garbage.
os.environ.setdefault("GOGC", "400")


def pytest_configure(config: pytest.Config) -> None:
    """Examples are the same each time, so that only a change makes one fail; `--hypothesis-seed` chooses others.

    A busy machine is no fault of the code: none has a deadline.
    """
    chosen = config.getoption("--hypothesis-seed") is not None
    settings.register_profile("messagestore", deadline=None, derandomize=not chosen)
    settings.load_profile("messagestore")


class OneCluster(LoadFileScheduling):
    """A worker takes a file after the other, and one of them all the files of tests/e2e: these share one cluster.

    That one then leaves tests/jobs to the others, which have Spark sessions, as long as there is anything else.

    Of `make test-hostile`, `test-histories` and `test-documents` it takes a test after the other, as nearly all are in
    one file.
    """

    def _split_scope(self, nodeid: str) -> str:
        if os.environ.keys() & {"MESSAGESTORE_HOSTILE", "MESSAGESTORE_HISTORIES", "MESSAGESTORE_DOCUMENTS"}:
            return nodeid
        return _CLUSTER if nodeid.startswith(f"{_CLUSTER}/") else super()._split_scope(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        without_spark = _CLUSTER in self.assigned_work.get(node, {})

        def fits(scope: str) -> bool:
            return scope == _CLUSTER or scope.startswith("tests/jobs/") != without_spark

        if (scope := next(filter(fits, self.workqueue), None)) is not None:
            self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneCluster:
    return OneCluster(config, log)
