"""The tutorial's commands for a cluster, word for word; tests/jobs/documents runs those before them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.documents import REPOSITORY, RUN, RUN_IN_CLUSTER, blocks, run_script
from support.kind import WAIT_SECONDS, Cluster, remove_bucket
from support.site import Site

PAGE = "docs/tutorial.md"


@pytest.fixture
def tutorial(cluster: Cluster) -> Iterator[Site]:
    """The namespace and the bucket that the tutorial creates."""
    yield Site(cluster, "tutorial", "tutorial")
    cluster.kubectl("delete", "namespace", "tutorial", "--wait=false", "--ignore-not-found")
    remove_bucket(cluster.s3.filesystem(), "tutorial")


@pytest.mark.long
def test_the_tutorial_ends_with_its_last_message_replayed_in_a_cluster(tutorial: Site, tmp_path: Path) -> None:
    done = run_script(_script(), tmp_path, REPOSITORY)

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{tutorial.story()}"
    assert '"messageId":"o-3"' in done.stdout.splitlines()[-1]


def _script() -> str:
    """The commands that write the tutorial's files, and those for a cluster, except the one that creates it."""
    written = [block for block in blocks() if block.page == PAGE and block.heading in RUN[PAGE]]
    there = [block for block in blocks() if block.page == PAGE and block.heading in RUN_IN_CLUSTER[PAGE]]
    commands = [block.commands for block in written if block.language == "sh"] + [block.commands for block in there]
    made = "".join(commands).replace("make cluster\n", "")
    # The node shares its processors with other tests.
    return made.replace("--timeout=300s", f"--timeout={WAIT_SECONDS}s")
