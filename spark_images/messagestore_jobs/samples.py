"""Writes messages to a folder on object storage: what ``helm test`` stores, before its stream exists."""

import json
import sys
from collections.abc import Sequence
from urllib.parse import urlsplit

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.storage import reaching


def lines(count: int) -> bytes:
    """Native records of one message stream, a JSON object a line."""
    records = (
        {"messageId": f"m-{number}", "streamName": "sample-1", "type": "Sample", "payload": {"number": number}}
        for number in range(1, count + 1)
    )
    return "".join(f"{json.dumps(record)}\n" for record in records).encode()


def write(entry: StorageEntry, uri: str, count: int) -> None:
    """Write a file of messages into a folder.

    Raises:
        RunFailedError: credentials are not in the environment.
        OSError: storage refuses it.
    """
    parts = urlsplit(uri)
    with (
        reaching([entry]) as storage,
        storage.filesystem(uri).open_output_stream(f"{parts.netloc}{parts.path}/samples.jsonl") as out,
    ):
        out.write(lines(count))


def main(arguments: Sequence[str]) -> None:
    """Take a storage entry in JSON, the folder's URI and the number of messages."""
    entry, uri, count = arguments
    write(StorageEntry.model_validate_json(entry), uri, int(count))


if __name__ == "__main__":
    main(sys.argv[1:])
