"""Sides of benchmarks in processes of their own, so that none warms up, or fills the memory of, another."""

import json
import subprocess
import sys
from typing import Any


def in_fresh_process(module: str, *arguments: str) -> dict[str, Any]:
    """The JSON in the last line that a module prints, run with these arguments."""
    command = [sys.executable, "-m", module, *arguments]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    found: dict[str, Any] = json.loads(output.splitlines()[-1])
    return found
