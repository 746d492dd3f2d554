"""The entry points: the command, and what kubectl asks to complete it."""

import os
import shlex
import sys

from messagestore_operator.standard_streams import standard_streams

NAME = "kubectl-messagestore"


def main() -> None:
    """Print the version at once, as that needs no parser, or run the command line."""
    with standard_streams():
        if sys.argv[1:] == ["--version"]:
            from importlib.metadata import version

            sys.stdout.write(f"kubectl messagestore {version('message-store-operator')}\n")
            return
        from messagestore_operator.plugin.main import app

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
