"""The machine: the project's cache folder, locks between processes, and commands that fail with a reason."""

import fcntl
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def cache_folder() -> Path:
    """The folder for what is slow to build or download: outside the work tree, shared by all clones."""
    if own := os.environ.get("MESSAGESTORE_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "message-store-operator"


@contextmanager
def lock(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file ``path``; other processes wait and print that another ``what`` is in progress."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another {what} is in progress, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def fresh(folder: Path) -> Path:
    """A folder without what it may have had."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


@contextmanager
def whole(folder: Path) -> Iterator[Path]:
    """An empty folder that becomes ``folder`` at the end, so that an interrupted build or download never counts."""
    unfinished = fresh(folder.with_name(f".{folder.name}.unfinished"))
    yield unfinished
    unfinished.rename(folder)


@contextmanager
def step(what: str) -> Iterator[None]:
    """Print what is being done, and afterwards how long it took."""
    say(f"{what} ...")
    started = time.monotonic()
    yield
    say(f"{what}: {time.monotonic() - started:.0f} s")


def say(message: str) -> None:
    """Print a message for people on standard error; standard output is for a command's result."""
    sys.stderr.write(f"{message}\n")
    sys.stderr.flush()


def run(
    command: Sequence[str | Path],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str | None = None,
) -> str:
    """Run a command quietly and return its standard output.

    ``environment`` is added to this process's own. Raises SystemExit with the command and its error output.
    """
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        complaint = (done.stderr.strip() or done.stdout.strip())[-4000:]
        raise SystemExit(f"failed ({done.returncode}): {shlex.join(map(str, command))}\n{complaint}")
    return done.stdout
