"""The process that reads predicates: a line of JSON asks, a line of JSON answers.

Asked are the predicates of one resource; the answer is the first that is refused, with words, or null.
"""

from __future__ import annotations

import json
import resource
import sys

from messagestore_operator.predicates.bounded import TOO_LARGE, refused

READY = b"ready\n"
MEMORY_BYTES = 160 * 2**20
"""It shares the memory of the operator's pod; reading takes 50 MiB."""


def main() -> None:
    """Answer until there is no more to be asked, or no memory to go on with."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    refused([("MESSAGE_COLUMNS", "true")])
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        found = refused([(columns, text) for columns, text in json.loads(line)])
        print(json.dumps(found[0] if found else None), flush=True)  # noqa: T201 - that is the answer
        if found and found[-1][1] == TOO_LARGE:
            return


if __name__ == "__main__":
    main()
