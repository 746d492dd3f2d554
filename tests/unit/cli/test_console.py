"""What a local run prints: bars on a terminal (here a pseudo-terminal), and plain lines elsewhere."""

import io
import os
import pty
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

import pytest

from messagestore_operator.cli.console import console
from messagestore_operator.local.run import Console

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A pseudo-terminal. A thread reads all that is written to it, as the writer would block otherwise."""

    def __init__(self) -> None:
        self._ours, theirs = pty.openpty()
        self.file: TextIO = os.fdopen(theirs, "w")
        self._read = bytearray()
        self._reader = threading.Thread(target=self._listen)
        self._reader.start()

    def _listen(self) -> None:
        try:
            while chunk := os.read(self._ours, 1 << 16):
                self._read += chunk
        except OSError:
            pass  # On Linux: the last writer has closed it.

    def shown(self) -> list[str]:
        """Close it, and return its lines, including overwritten ones."""
        self.file.close()
        self._reader.join(10)
        os.close(self._ours)
        lines = re.split(r"[\r\n]+", ESCAPES.sub("", self._read.decode()))
        return [line.rstrip() for line in lines if line.strip()]


@contextmanager
def standard_error_is(file: TextIO) -> Iterator[None]:
    """Replace standard error. A fixture can't, as pytest replaces it again for each phase of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TERM", "xterm")
        patch.setenv("COLUMNS", "100")
        patch.setattr(sys, "stderr", file)
        yield


def run(console: Console) -> None:
    """Run three steps, of a known size, of size 0 and of an unknown size, with a message in the middle of the first."""
    console.say("starting Spark")
    with console.progress("orders-ingest") as progress:
        progress.step("ingest", 4)
        progress.advance(1)
        progress.say("one file was gone")
        progress.advance(3)
        progress.step("archive", 0)
        progress.step("commit")


def test_on_a_terminal_each_step_is_a_bar_that_is_full_in_the_end() -> None:
    terminal = Terminal()
    with standard_error_is(terminal.file):
        run(console())
    lines = terminal.shown()
    assert lines[0] == "starting Spark"
    assert "orders-ingest: one file was gone" in lines
    for line, step in zip(lines[-3:], ("ingest", "archive", "commit"), strict=True):
        assert re.fullmatch(rf"✓ orders-ingest: {step} +━+ +100% +0:00:0\d", line), line


def test_a_run_that_fails_leaves_its_bar_where_it_was() -> None:
    terminal = Terminal()
    with standard_error_is(terminal.file), suppress(RuntimeError), console().progress("orders-ingest") as progress:
        progress.step("ingest", 4)
        progress.advance(1)
        raise RuntimeError
    assert re.search(r"orders-ingest: ingest .* 25%", terminal.shown()[-1])


def test_elsewhere_each_step_is_a_line() -> None:
    plain = io.StringIO()
    with standard_error_is(plain):
        run(console())
    assert plain.getvalue().splitlines() == [
        "starting Spark",
        "orders-ingest: ingest",
        "orders-ingest: one file was gone",
        "orders-ingest: archive",
        "orders-ingest: commit",
    ]
