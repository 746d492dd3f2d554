"""PostgreSQL and message-db's SQL, with which the tests compare a store.

python3 -m tools.messagedb    get what is missing; print the folders of PostgreSQL's programs and of the SQL
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.cluster import debian
from tools.npm import package_folder

VERSION = "1.3.1"
_SHA512 = (
    "9f785d13960064d5d3af61caf601b4189e9dbac81d139e382d3bd2fb6d7fc8e1"
    "0706f36e5333665d7c39bd2d39be97ba452ba1cd3472e56834abb73555f260f8"
)
_INSTALLED = Path("/usr/lib/postgresql")


def postgresql_programs() -> Path:
    """The folder of the newest PostgreSQL's programs; if there is none, Debian's package is installed."""
    programs = _installed()
    if programs is None:
        debian.need({"initdb": "postgresql"})
        programs = _installed()
    if programs is None:
        raise SystemExit(f"Debian's package postgresql has put no initdb under {_INSTALLED}")
    return programs


def message_db() -> Path:
    """The folder of message-db's install.sh and SQL."""
    return package_folder("@eventide/message-db", VERSION, _SHA512) / "database"


def _installed() -> Path | None:
    initdbs = sorted(_INSTALLED.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return initdbs[-1].parent if initdbs else None


def main() -> None:
    """Run the command line."""
    sys.stdout.write(f"{postgresql_programs()}\n{message_db()}\n")


if __name__ == "__main__":
    main()
