"""The entry points: the command, and what kubectl asks to complete it."""

import os
import shlex
import sys

from messagestore_operator.standard_streams import standard_streams

NAME = "kubectl-messagestore"


def main() -> None:
    """Run the command line."""
    from messagestore_operator.plugin.main import app

    with standard_streams():
        app(prog_name="kubectl messagestore")


def complete() -> None:
    """Print what may follow the given words, one a line, as kubectl asks its plugins, and that no file may."""
    words = [NAME, *sys.argv[1:]]
    os.environ |= {
        "_KUBECTL_MESSAGESTORE_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    from messagestore_operator.plugin.main import app

    try:
        app(prog_name=NAME)
    finally:
        sys.stdout.write(":4\n")


if __name__ == "__main__":
    main()
