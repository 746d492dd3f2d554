"""Jars of Maven, packages of npm and of Debian, got once: into the project's cache folder, or where Debian has them.

python3 -m hack.downloads [NAME...]    get what is missing of FOLDERS, print the folder of each
"""

import hashlib
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from hack import debian
from hack.machine import REPOSITORY, cache_folder, lock, run, step, whole

_POSTGRESQL = Path("/usr/lib/postgresql")
_MESSAGE_DB = (
    "1.3.1",
    "9f785d13960064d5d3af61caf601b4189e9dbac81d139e382d3bd2fb6d7fc8e1"
    "0706f36e5333665d7c39bd2d39be97ba452ba1cd3472e56834abb73555f260f8",
)


_AXE = (
    "4.14.1",
    "1477dafa598d8d065f273d6af302aa203c02e83131707b7fa648cd41bd3d6b73"
    "4f8c22a0dab86ee6a6f64b8afbe804b214d36db85a2826965edfb3a0b9d546b5",
)


def postgresql() -> Path:
    """The folder of the newest PostgreSQL's programs; if there is none, Debian's package is installed."""
    programs = _installed()
    if programs is None:
        debian.need({"initdb": "postgresql"})
        programs = _installed()
    if programs is None:
        raise SystemExit(f"Debian's package postgresql has put no initdb under {_POSTGRESQL}")
    return programs


def _installed() -> Path | None:
    initdbs = sorted(_POSTGRESQL.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    return initdbs[-1].parent if initdbs else None


def of_debian(program: str, package: str) -> Path:
    """The folder of a program; a missing one is installed by Debian's package."""
    debian.need({program: package})
    installed = shutil.which(program)
    if installed is None:
        raise SystemExit(f"Debian's package {package} has put no {program} on the PATH")
    return Path(installed).parent


def package_folder(package: str, version: str, sha512: str) -> Path:
    """The folder of an npm package's files; a missing one is downloaded, and refused unless it has this SHA-512."""

    def download(folder: Path) -> None:
        debian.need({"npm": "npm"})
        archive = folder / run(["npm", "pack", "--silent", f"{package}@{version}"], folder=folder).split()[-1]
        if hashlib.sha512(archive.read_bytes()).hexdigest() != sha512:
            raise SystemExit(f"{package}@{version} is not the expected package: its SHA-512 differs")
        run(["tar", "-xzf", archive], folder=folder)

    return _once(f"{package.rpartition('/')[2]}-{version}", download) / "package"


def jars_folder(name: str, version: str) -> Path:
    """The folder of the jars that the pom.xml in hack/``name`` names; missing ones are downloaded by Maven."""
    command = [REPOSITORY / "spark_images/jars/fetch.sh", REPOSITORY / "hack" / name / "pom.xml"]
    return _once(f"{name}-{version}", lambda folder: run([*command, folder]))


def _once(name: str, download: Callable[[Path], object]) -> Path:
    """A folder of the cache, which is filled if it is missing."""
    folder = cache_folder() / name
    with lock(cache_folder() / f"{name}.lock", f"download of {name}"):
        if not folder.exists():
            with step(f"download of {name}"), whole(folder) as unfinished:
                download(unfinished)
    return folder


FOLDERS: Mapping[str, Callable[[], Path]] = {
    "kafka": lambda: jars_folder("kafka", "4.1.0"),
    "junit": lambda: jars_folder("junit", "6.0.1"),
    "postgresql": postgresql,
    "message-db": lambda: package_folder("@eventide/message-db", *_MESSAGE_DB) / "database",
    "webhook": lambda: of_debian("webhook", "webhook"),
    "promtool": lambda: of_debian("promtool", "prometheus"),
    "chromium": lambda: of_debian("chromium-headless-shell", "chromium-headless-shell"),
    "axe-core": lambda: package_folder("axe-core", *_AXE),
    "prometheus-alertmanager": lambda: of_debian("prometheus-alertmanager", "prometheus-alertmanager"),
}


def main() -> None:
    """Run the command line."""
    for name in sys.argv[1:] or FOLDERS:
        sys.stdout.write(f"{FOLDERS[name]()}\n")


if __name__ == "__main__":
    main()
