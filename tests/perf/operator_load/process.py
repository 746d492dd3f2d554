"""The memory and CPU that a process uses, from /proc."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from support.background import repeated

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Usage:
    """Samples of one process: its memory in MiB, second by second, its peak, and its seconds of CPU."""

    memory: list[float] = field(default_factory=list)
    peak: float = 0.0
    cpu: list[float] = field(default_factory=list)

    @property
    def processors(self) -> float:
        """The average number of processors in use; samples are a second apart."""
        return (self.cpu[-1] - self.cpu[0]) / max(1, len(self.cpu) - 1)

    def take(self, process: int) -> None:
        """Add a sample."""
        place = Path(f"/proc/{process}")
        self.memory.append(int((place / "statm").read_text().split()[1]) * _PAGE / 2**20)
        times = (place / "stat").read_text().rpartition(")")[2].split()
        self.cpu.append((int(times[11]) + int(times[12])) / _TICKS)
        lines = (place / "status").read_text().splitlines()
        self.peak = next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


@contextmanager
def watched(processes: Mapping[str, int]) -> Iterator[dict[str, Usage]]:
    """Sample processes each second, by their names."""
    found = {name: Usage() for name in processes}

    def sample() -> None:
        for name, usage in found.items():
            with suppress(OSError, StopIteration):
                usage.take(processes[name])

    with repeated(sample, seconds=1):
        yield found


def children() -> dict[str, int]:
    """This process's own children by the names of their programs."""
    own = os.getpid()
    numbers = Path(f"/proc/{own}/task/{own}/children").read_text().split()
    return {Path(f"/proc/{number}/comm").read_text().strip(): int(number) for number in numbers}
