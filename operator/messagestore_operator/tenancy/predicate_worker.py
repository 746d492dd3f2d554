"""The process that checks predicates: each request and each answer is a line of JSON.

A request has the predicates of one resource. The answer is the index of the first that is refused and why, or null.
"""

import json
import resource
import sys

from messagestore_operator.tenancy.predicates import TOO_LARGE, refused

READY = b"ready\n"
MEMORY_BYTES = 160 * 2**20
"""It shares the memory of the operator's pod; it takes 50 MiB."""


def main() -> None:
    """Answer requests until there are no more or memory runs out."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    for line in sys.stdin.buffer:
        problems = refused([(columns, text) for columns, text in json.loads(line)])
        print(json.dumps(problems[0] if problems else None), flush=True)  # noqa: T201 - that is the answer
        if problems and problems[-1][1] == TOO_LARGE:
            return


if __name__ == "__main__":
    main()
