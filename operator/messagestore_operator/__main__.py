"""The entry point of the command line."""

from messagestore_operator.cli.main import app as main

if __name__ == "__main__":
    main()
