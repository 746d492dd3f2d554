"""The Docker that the cluster runs in: the machine's own if it works and reaches a registry, else one of ours.

Ours runs in its own network and mount namespaces, so that its firewall rules, bridges and mounts change nothing else on
the machine, and with a runtime that doesn't need CAP_SYS_RESOURCE.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hack import debian
from hack.machine import REPOSITORY, cache_folder, run, say, step

NAMESPACE = Path("/run/netns/messagestore")
CGROUP = "messagestore"
PATIENCE_SECONDS = 60


@dataclass(frozen=True)
class Docker:
    """A Docker daemon that answers; ``own`` if it is ours, which can't reach a registry."""

    own: bool
    environment: Mapping[str, str]

    def run(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run the docker client and return what it prints; SystemExit when it fails."""
        return run(["docker", *arguments], environment=self.environment, stdin=stdin)

    def has_image(self, image: str) -> bool:
        """Whether the daemon has ``image``."""
        return bool(self.run("images", "--quiet", image).strip())

    def identity(self, name: str) -> str:
        """The id of an image or container; an image's changes only with its content."""
        return self.run("inspect", "--format", "{{.Id}}", name).strip()

    def drop_others(self, image: str) -> None:
        """Remove other tags of the same name as ``image``, unless a container still runs from them."""
        listed = self.run("images", "--format", "{{.Repository}}:{{.Tag}}", image.rpartition(":")[0])
        for other in set(listed.split()) - {image}:
            with contextlib.suppress(SystemExit):
                self.run("rmi", other)

    def pipe(self, source: list[str | Path], *arguments: str | Path) -> None:
        """Run the docker client with the output of the command ``source`` as its input."""
        environment = {**os.environ, **self.environment}
        with subprocess.Popen(source, stdout=subprocess.PIPE, env=environment) as writer:
            done = subprocess.run(
                ["docker", *arguments],
                stdin=writer.stdout,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
        if done.returncode != 0 or writer.returncode != 0:
            raise SystemExit(f"docker {' '.join(map(str, arguments))} failed: {done.stderr.strip()}")


def state_folder() -> Path:
    """The folder for the state of our own Docker and the cluster."""
    return cache_folder() / "cluster"


def find(probe_image: str) -> Docker:
    """The machine's Docker if it can pull ``probe_image``, else our own, which is started if it isn't running."""
    if not NAMESPACE.exists() and _machine_docker_pulls(probe_image):
        return Docker(own=False, environment={})
    return start()


def start() -> Docker:
    """Our own daemon, which is started if it isn't running."""
    docker = _own()
    if _answers(docker):
        return docker
    debian.need(
        {"dockerd": "docker.io", "docker": "docker.io", "ip": "iproute2", "iptables": "iptables", "jq": "jq"}
        | {"nsenter": "util-linux", "runc": "runc", "containerd": "containerd"}
    )
    with step("starting a Docker daemon in its own network namespace"):
        _make_namespace()
        _start_daemon(docker)
    return docker


def running() -> Docker | None:
    """Our own daemon if it runs, else the machine's if that runs, else None. Starts nothing."""
    docker = _own() if NAMESPACE.exists() else Docker(own=False, environment={})
    return docker if _answers(docker) else None


def stop() -> None:
    """End our own daemon and all it started, and remove its network namespace and control groups."""
    _end(state_folder() / "forward.pid", "forward")
    _end(state_folder() / "docker.pid", "dockerd")
    (state_folder() / "docker.sock").unlink(missing_ok=True)
    if NAMESPACE.exists():
        run(["ip", "netns", "delete", NAMESPACE.name])
        if not any(NAMESPACE.parent.iterdir()):  # `ip` mounts the folder on itself for the first namespace
            run(["umount", NAMESPACE.parent])
            NAMESPACE.parent.rmdir()
    for group in Path("/sys/fs/cgroup").glob(f"*/{CGROUP}"):
        _remove_groups(group)


def forward(*ports: int) -> None:
    """Forward the same ports of this machine's loopback to our own daemon's namespace."""
    pid_file = state_folder() / "forward.pid"
    if _process(pid_file, "forward") is not None:
        return
    with (state_folder() / "forward.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "hack.forward", NAMESPACE, *map(str, ports)],
            cwd=REPOSITORY,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    pid_file.write_text(str(process.pid))
    hint = f"see {state_folder() / 'forward.log'}"
    wait_until(lambda: process.poll() is not None or all(map(_listens, ports)), "the cluster's ports are open", hint)
    if process.poll() is not None:
        raise SystemExit(f"ports {' and '.join(map(str, ports))} are not free on loopback; {hint}")


def _own() -> Docker:
    # Debian's daemon builds images itself; the client would otherwise look for a plug-in.
    address = f"unix://{state_folder() / 'docker.sock'}"
    return Docker(own=True, environment={"DOCKER_HOST": address, "DOCKER_BUILDKIT": "0"})


def _machine_docker_pulls(image: str) -> bool:
    try:
        answers = subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
    if not answers:
        return False
    pulled = subprocess.run(["docker", "pull", "--quiet", image], capture_output=True, check=False).returncode == 0
    if not pulled:
        say("this machine's Docker can't reach a registry: starting one whose images are built here")
    return pulled


def _answers(docker: Docker) -> bool:
    if docker.own and not (state_folder() / "docker.sock").exists():
        return False
    try:
        docker.run("version")
    except (SystemExit, FileNotFoundError):
        return False
    return True


def _make_namespace() -> None:
    if not NAMESPACE.exists():
        run(["ip", "netns", "add", NAMESPACE.name])
    # Not `ip netns exec`, which mounts another /sys without the control groups.
    run(["nsenter", f"--net={NAMESPACE}", "ip", "link", "set", "lo", "up"])


def _start_daemon(docker: Docker) -> None:
    state = state_folder()
    state.mkdir(parents=True, exist_ok=True)
    (state / "docker.pid").unlink(missing_ok=True)
    # A copy: containers outlive the work tree that the daemon was started from.
    runtime = Path(shutil.copy(Path(__file__).with_name("runc_without_resource.sh"), state))
    # Its run-time files, key and configuration exist only in its mount namespace, and vanish with it.
    alone = 'mount -t tmpfs tmpfs /run && mount -t tmpfs tmpfs /etc/docker && exec "$@"'
    command: list[str | Path] = ["nsenter", f"--net={NAMESPACE}", "unshare", "--mount", "sh", "-c", alone, "sh"]
    command += ["dockerd", "--pidfile", state / "docker.pid"]
    command += ["--data-root", state / "docker", "--exec-root", state / "exec"]
    command += ["--host", docker.environment["DOCKER_HOST"], "--storage-driver", "overlay2"]
    command += ["--add-runtime", f"without-resource={runtime}", "--default-runtime", "without-resource"]
    command += ["--cgroup-parent", f"/{CGROUP}"]
    with (state / "docker.log").open("w") as log:
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    wait_until(lambda: _answers(docker), "the Docker daemon answers", f"see {state / 'docker.log'}")


def wait_until(true: Callable[[], bool], what: str, hint: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until ``true()``; after ``seconds`` raise SystemExit with ``what`` it waited for and a ``hint``."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit(f"waited {seconds:.0f} s until {what}, in vain; {hint}")
        time.sleep(0.3)


def _process(pid_file: Path, of: str) -> int | None:
    """The process of a pid file if it's alive and still the same one: numbers are reused."""
    try:
        pid = int(pid_file.read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (OSError, ValueError):
        return None
    return pid if of in command else None


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _end(pid_file: Path, of: str) -> None:
    pid = _process(pid_file, of)
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: _process(pid_file, of) is None, f"{of} ({pid}) has ended", f"end process {pid} by hand")
    pid_file.unlink(missing_ok=True)


def _remove_groups(group: Path) -> None:
    """Remove a control group and those below it; the kernel refuses while they have processes."""
    for below in [path for path in group.iterdir() if path.is_dir()]:
        _remove_groups(below)
    group.rmdir()
