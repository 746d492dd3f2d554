"""The progress of a local run on standard error: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from messagestore_core.progress import ProgressListener
from messagestore_core.text import printable
from messagestore_operator.local.run import Console

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


def console() -> Console:
    """The console that fits standard error."""
    return TerminalConsole(sys.stderr) if sys.stderr.isatty() else PlainConsole(sys.stderr)


class PlainConsole:
    """Prints one line for each step."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def say(self, text: str) -> None:
        """Write a line."""
        print(printable(text), file=self._stream, flush=True)

    @contextmanager
    def progress(self, run: str) -> Iterator[ProgressListener]:
        """Lines that begin with the run's name."""
        yield _Lines(self, run)


class _Lines:
    def __init__(self, console: PlainConsole, run: str) -> None:
        self._console, self._run = console, run

    def step(self, name: str, total: int | None = None) -> None:
        self._console.say(f"{self._run}: {name}")

    def advance(self, done: int) -> None:
        """Do nothing: a log has no bars."""

    def say(self, text: str) -> None:
        self._console.say(f"{self._run}: {text}")


class TerminalConsole:
    """Shows one bar for each step."""

    def __init__(self, stream: TextIO) -> None:
        # Imported late, as all of this library: a log needs none of it.
        from rich.console import Console as RichConsole

        self._rich = RichConsole(file=stream, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Write a line, above the bars if there are any."""
        self._rich.print(printable(text), markup=False)

    @contextmanager
    def progress(self, run: str) -> Iterator[ProgressListener]:
        """One bar below the other; each stays when it is full."""
        from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(finished_text="✓"),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._rich) as bars:
            shown = _Bars(bars, run)
            yield shown
            shown.end()


class _Bars:
    def __init__(self, bars: Progress, run: str) -> None:
        self._bars, self._run = bars, run
        self._task: TaskID | None = None
        self._total: int | None = None

    def step(self, name: str, total: int | None = None) -> None:
        self.end()
        self._total = total
        # A step with nothing to do is full at once; one without a size has a pulsing bar.
        self._task = self._bars.add_task(f"{self._run}: {name}", total=total)

    def advance(self, done: int) -> None:
        if self._task is not None:
            self._bars.advance(self._task, done)

    def say(self, text: str) -> None:
        self._bars.console.print(printable(f"{self._run}: {text}"), markup=False)

    def end(self) -> None:
        """Fill the bar of the step that has ended."""
        if self._task is not None:
            size = self._total or 1
            self._bars.update(self._task, total=size, completed=size)
            self._task = None
