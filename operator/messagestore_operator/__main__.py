"""The entry point of the command line."""

import sys

from messagestore_operator.standard_streams import standard_streams


def main() -> None:
    """Print the version at once, as that needs no parser, or run the command line."""
    with standard_streams():
        if sys.argv[1:] == ["--version"]:
            from importlib.metadata import version

            sys.stdout.write(f"messagestore {version('message-store-operator')}\n")
            return
        from messagestore_operator.cli.main import app

        app()


if __name__ == "__main__":
    main()
