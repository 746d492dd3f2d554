"""The cluster's command line: ``python3 -m hack.cluster up``; make has a target for each command.

up      create the cluster, or its missing parts: a Spark operator, an S3 server, and the project's operator from this
        work tree, by its chart; --values FILE for the chart
images  build the project's images and load them into the cluster's node, if there is one
down    delete the cluster, and stop all that was started for it
status  print whether it's healthy; exit 1 if not
kubeconfig  print the path of the administrator's kubeconfig
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from hack import docker, images, install, kind
from hack.machine import lock, say, step


def up(values: Path | None) -> None:
    """Create the cluster or its missing parts, and upgrade the project's operator. All else stays as it is."""
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
    """Build the project's images, and load them into the node if there is one."""
    daemon = docker.find(kind.public_node_image())
    _build_and_load(daemon, images.spark, images.operator)


def down() -> None:
    """Delete the cluster, and stop all that was started for it; images stay in the cache."""
    if docker.NAMESPACE.exists():
        # A killed daemon leaves containers behind; a new one can end them.
        daemon = docker.start()
        kind.delete(daemon)
    elif (running := docker.running()) is not None:
        kind.delete(running)
    docker.stop()


def status() -> None:
    """Print whether the cluster is healthy; exits 1 if it's not."""
    healthy = kind.healthy()
    say(f"healthy, kubeconfig {kind.kubeconfig()}" if healthy else "no healthy cluster")
    if not healthy:
        raise SystemExit(1)


def _build_and_load(daemon: docker.Docker, *builds: Callable[[docker.Docker], str]) -> list[str]:
    """Build images, and load them into the node if there is one; returns their names, in order."""
    built = [build(daemon) for build in builds]
    if kind.exists(daemon):
        kind.load(daemon, built)
    if daemon.own:
        daemon.run("image", "prune", "--force")  # the old images, whose names the new ones took
    return built


def kubeconfig() -> None:
    """Print the path of the administrator's kubeconfig."""
    sys.stdout.write(f"{kind.kubeconfig()}\n")


CHANGES: Mapping[str, Callable[[], None]] = {"images": build_images, "down": down}
QUESTIONS: Mapping[str, Callable[[], None]] = {"status": status, "kubeconfig": kubeconfig}


def main() -> None:
    """Run the command line; commands that change something wait for each other."""
    parser = argparse.ArgumentParser(prog="python3 -m hack.cluster", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("command", choices=["up", *CHANGES, *QUESTIONS])
    parser.add_argument("--values", type=Path, help="additional values for the operator's chart; for up")
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
