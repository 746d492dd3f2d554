"""Locks of local runs, held by another process."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a+")
fcntl.flock(file, getattr(fcntl, sys.argv[2]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(path: str, lock: str) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that holds a lock file, shared (LOCK_SH) or alone (LOCK_EX)."""
    command = [sys.executable, "-c", _HOLD, path, lock]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
