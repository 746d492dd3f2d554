"""Jars for the tests, brought into the project's cache folder by Maven, once."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tools.machine import REPOSITORY, cache_folder, lock, run, step


def jars_folder(what: str, pom: Path) -> Path:
    """The folder of the jars that a pom.xml names, called after `what`; brought where they are missing."""
    folder = cache_folder() / what
    with lock(cache_folder() / f"{pom.parent.name}.lock", f"download of {what}"):
        if not folder.exists():
            with step(f"{what} by Maven"):
                _download(folder, pom)
    return folder


def _download(folder: Path, pom: Path) -> None:
    """Beside its place first: a folder that is there is whole."""
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        run([REPOSITORY / "spark_images/jars/fetch.sh", pom, made])
        made.chmod(0o755)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
