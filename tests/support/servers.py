"""Servers that tests start on free ports of this machine."""

import socket
import subprocess
import time
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """All at once, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_until_it_listens(name: str, server: "subprocess.Popen[bytes]", port: int, log: Path, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"{name} didn't start:\n{log.read_text()[-4000:]}")
