"""Bring the jars of a Kafka broker into the project's cache folder, once, and print the folder that holds them."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tools.machine import REPOSITORY, cache_folder, lock, run, step

KAFKA_VERSION = "4.1.0"
_POM = Path(__file__).with_name("pom.xml")


def jars_folder() -> Path:
    """The folder of the broker's jars, brought by Maven where they are missing."""
    folder = cache_folder() / f"kafka-{KAFKA_VERSION}"
    with lock(cache_folder() / "kafka.lock", "download of the Kafka broker"):
        if not folder.exists():
            with step(f"Kafka {KAFKA_VERSION} by Maven"):
                _download(folder)
    return folder


def _download(folder: Path) -> None:
    """Beside its place first: a folder that is there is whole."""
    made = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    try:
        run([REPOSITORY / "spark_images/jars/fetch.sh", _POM, made])
        made.chmod(0o755)
        made.rename(folder)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


if __name__ == "__main__":
    sys.stdout.write(f"{jars_folder()}\n")
