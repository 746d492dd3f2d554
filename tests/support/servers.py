"""Servers that tests start on free ports of this machine."""

import socket
import subprocess
from pathlib import Path

from support.waiting import wait_until


def free_ports(count: int) -> list[int]:
    """Some free ports, all found at once, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def wait_until_it_listens(name: str, server: "subprocess.Popen[bytes]", port: int, log: Path, seconds: float) -> None:
    def listens() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", port)) == 0

    def failure() -> str:
        return f"{name} listens; it said:\n{log.read_text()[-4000:]}"

    wait_until(listens, seconds, failure, alive=lambda: server.poll() is None, beat=0.05)
