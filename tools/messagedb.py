"""PostgreSQL and message-db's SQL, with which the tests compare a store.

python3 -m tools.messagedb    get what is missing; print the folders of PostgreSQL's programs and of the SQL
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

from tools.cluster import debian
from tools.machine import cache_folder, lock, run, step

VERSION = "1.3.1"
_PACKAGE = f"@eventide/message-db@{VERSION}"
_SHA512 = (
    "9f785d13960064d5d3af61caf601b4189e9dbac81d139e382d3bd2fb6d7fc8e1"
    "0706f36e5333665d7c39bd2d39be97ba452ba1cd3472e56834abb73555f260f8"
)
_INSTALLED = Path("/usr/lib/postgresql")


def postgresql_programs() -> Path:
    """The folder of the newest PostgreSQL's programs; if there is none, Debian's package is installed."""
    found = _installed()
    if found is None:
        debian.need({"initdb": "postgresql"})
        found = _installed()
    if found is None:
        raise SystemExit(f"Debian's package postgresql has put no initdb under {_INSTALLED}")
    return found


def message_db() -> Path:
    """The folder of message-db's install.sh and SQL."""
    folder = cache_folder() / f"message-db-{VERSION}"
    with lock(cache_folder() / "message-db.lock", "download of message-db"):
        if not folder.exists():
            debian.need({"npm": "npm"})
            with step(f"message-db {VERSION}"):
                _download(folder)
    return folder / "package" / "database"


def _installed() -> Path | None:
    found = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


def _download(folder: Path) -> None:
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    archive = unfinished / run(["npm", "pack", "--silent", _PACKAGE], folder=unfinished).split()[-1]
    if hashlib.sha512(archive.read_bytes()).hexdigest() != _SHA512:
        raise SystemExit(f"{_PACKAGE} is not the expected package: its SHA-512 differs")
    run(["tar", "-xzf", archive], folder=unfinished)
    unfinished.rename(folder)


def main() -> None:
    """Run the command line."""
    sys.stdout.write(f"{postgresql_programs()}\n{message_db()}\n")


if __name__ == "__main__":
    main()
