"""Prometheus' own programs, of Debian."""

import functools
import subprocess
import sys

from support.documents import REPOSITORY


@functools.cache
def program(name: str) -> str:
    """The path of a program, such as promtool, by the name under which hack/downloads.py has its folder."""
    command = [sys.executable, "-m", "hack.downloads", name]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, text=True)
    return f"{done.stdout.strip()}/{name}"
