"""One side of one benchmark in its own process: ``python -m tests.perf.side BENCHMARK SIDE ARGUMENTS-AS-JSON``.

Prints its figures as one line of JSON.
"""

import json
import resource
import sys

from tests.perf import benchmarks


def main() -> None:
    """Run the side and print what it measured."""
    name, side, arguments = sys.argv[1:]
    figures = benchmarks.BENCHMARKS[name].run(side, json.loads(arguments))
    figures["peakMegabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(figures))  # noqa: T201


if __name__ == "__main__":
    main()
