"""The entry point of the command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Print the version at once, as that needs no parser, or run the command line."""
    if sys.argv[1:] == ["--version"]:
        from importlib.metadata import version

        sys.stdout.write(f"messagestore {version('message-store-operator')}\n")
        return
    from messagestore_operator.cli.main import app

    app()


if __name__ == "__main__":
    main()
