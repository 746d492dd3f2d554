"""Packages of npm, downloaded once into the project's cache folder."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from tools.cluster import debian
from tools.machine import cache_folder, lock, run, step


def package_folder(package: str, version: str, sha512: str) -> Path:
    """The folder of a package's files; a missing one is downloaded, and refused unless it has this SHA-512."""
    name = package.rpartition("/")[2]
    folder = cache_folder() / f"{name}-{version}"
    with lock(cache_folder() / f"{name}.lock", f"download of {name}"):
        if not folder.exists():
            debian.need({"npm": "npm"})
            with step(f"{name} {version}"):
                _download(folder, f"{package}@{version}", sha512)
    return folder / "package"


def _download(folder: Path, package: str, sha512: str) -> None:
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    archive = unfinished / run(["npm", "pack", "--silent", package], folder=unfinished).split()[-1]
    if hashlib.sha512(archive.read_bytes()).hexdigest() != sha512:
        raise SystemExit(f"{package} is not the expected package: its SHA-512 differs")
    run(["tar", "-xzf", archive], folder=unfinished)
    unfinished.rename(folder)
