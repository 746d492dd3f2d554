"""The entry point of the command line."""

from messagestore_operator.cli.main import app
from messagestore_operator.standard_streams import standard_streams


def main() -> None:
    """Run the command line."""
    with standard_streams():
        app()


if __name__ == "__main__":
    main()
