"""Standard input, output and error of a command, whatever they lead to."""

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_INTERRUPTED = 128 + signal.SIGINT


@contextmanager
def standard_streams() -> Iterator[None]:
    """Let closed streams be empty ones, and end with one line where output can't be written, as on a full disk.

    Ctrl-C ends it with one line, too, while modules load and nobody else tells of it.
    """
    sys.stdin = sys.stdin or _nowhere()
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    try:
        yield
    except KeyboardInterrupt:
        sys.stderr.write("stopped by SIGINT\n")
        raise SystemExit(_INTERRUPTED) from None
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        # What is left in the stream's buffer would fail once more as the process ends.
        sys.stdout = _nowhere()
        raise SystemExit(f"error: the output can't be written: {error.strerror}") from None


def _nowhere() -> TextIO:
    return Path(os.devnull).open("r+")
