"""Jars for the tests, downloaded once by Maven into the project's cache folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tools.machine import REPOSITORY, cache_folder, lock, run, step


def jars_folder(what: str, pom: Path) -> Path:
    """The folder of the jars that a pom.xml names; missing ones are downloaded. Its name begins with ``what``."""
    folder = cache_folder() / what
    with lock(cache_folder() / f"{pom.parent.name}.lock", f"download of {what}"):
        if not folder.exists():
            with step(f"{what} by Maven"):
                _download(folder, pom)
    return folder


def _download(folder: Path, pom: Path) -> None:
    """Download to a temporary folder and rename it, so that an existing folder is complete."""
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        run([REPOSITORY / "spark_images/jars/fetch.sh", pom, made])
        made.chmod(0o755)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
