"""The cluster's command line: `python3 -m tools.cluster up`; make has a target for each command.

up      make the cluster, or what is missing of it: with a Spark operator, an S3 server, and the project's own operator
        by its chart, as the code stands; --values FILE for the chart
images  build the project's images and bring them into the cluster's node, when there is one
down    take the cluster away, and all that was started for it
status  say whether it's healthy; exit 1 when not
kubeconfig  print where the administrator's kubeconfig is
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools import images
from tools.cluster import docker, install, kind
from tools.cluster.load import load
from tools.machine import lock, say, step


def up(values: Path | None) -> None:
    """Make the cluster, or what is missing of it, and renew the project's operator. What else is there stays."""
    daemon = docker.find(kind.public_node_image())
    kind.create(daemon)
    *_, image = _build_and_load(daemon, images.spark_operator, images.versitygw, images.spark, images.operator)
    if daemon.own:
        install.names()
    kind.wait_for_names()
    install.s3(daemon)
    install.spark_operator()
    install.message_store_operator(daemon.identity(image), [values] if values else [])
    say(f"kubeconfig: {kind.kubeconfig()}")


def build_images() -> None:
    """Build the project's images, and bring them into the node when there is one."""
    daemon = docker.find(kind.public_node_image())
    _build_and_load(daemon, images.spark, images.operator)


def down() -> None:
    """Take the cluster away, and all that was started for it; images stay in the cache."""
    if docker.NAMESPACE.exists():
        # A daemon that was killed leaves containers: one that is started anew knows how to end them.
        daemon = docker.start()
        kind.delete(daemon)
    elif (found := docker.running()) is not None:
        kind.delete(found)
    docker.stop()


def status() -> None:
    """Say whether the cluster is healthy; exits 1 when it's not."""
    healthy = kind.healthy()
    say(f"healthy, kubeconfig {kind.kubeconfig()}" if healthy else "no healthy cluster")
    if not healthy:
        raise SystemExit(1)


def _build_and_load(daemon: docker.Docker, *builds: Callable[[images.Builder], str]) -> list[str]:
    """Build images, and bring them into the node when there is one; their names, in order."""
    builder = images.Builder(daemon)
    built = [build(builder) for build in builds]
    if kind.exists(daemon):
        load(daemon, kind.NODE, built)
    if daemon.own:
        daemon.run("image", "prune", "--force")  # what the new images took the names of
    return built


def kubeconfig() -> None:
    """Print where the administrator's kubeconfig is."""
    sys.stdout.write(f"{kind.kubeconfig()}\n")


CHANGES: Mapping[str, Callable[[], None]] = {"images": build_images, "down": down}
QUESTIONS: Mapping[str, Callable[[], None]] = {"status": status, "kubeconfig": kubeconfig}


def main() -> None:
    """Run the command line; of commands that change something two at once take turns."""
    parser = argparse.ArgumentParser(prog="python3 -m tools.cluster", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=["up", *CHANGES, *QUESTIONS])
    parser.add_argument("--values", type=Path, help="of the operator's chart, beside those of the cluster; for up")
    arguments = parser.parse_args()
    command: str = arguments.command
    if command in QUESTIONS:
        QUESTIONS[command]()
        return
    with lock(docker.state_folder() / "lock", "cluster command"), step(f"cluster {command}"):
        if command == "up":
            up(arguments.values)
        else:
            CHANGES[command]()


if __name__ == "__main__":
    main()
