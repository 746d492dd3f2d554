"""The code of an earlier commit, for tests of releases that follow each other. It needs git's history."""

import subprocess
import tarfile
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
EARLIER = "fddee8a25cd15e36a621cc5410dd064a92928da3"
"""The commit that named the fields of the kinds as they are. The first release will take its place."""
_SOURCES = ("core", "operator", "spark_images", "library")


def earlier_code(folder: Path) -> dict[str, str]:
    """Put the code of the earlier commit into a folder; returns the environment in which Python imports it."""
    archive = folder / "earlier.tar"
    command = ["git", "archive", "--output", str(archive), EARLIER, *_SOURCES]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()
    return {"PYTHONPATH": ":".join(str(folder / source) for source in _SOURCES)}
