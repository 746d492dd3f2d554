"""The real helm, with the project's chart."""

import subprocess
from pathlib import Path
from typing import Any

import yaml
from hack.programs import program

Document = dict[str, Any]

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "message-store-operator"
RELEASE = "store"
NAMESPACE = "messagestore"
KUBE_VERSION = "1.34.4"
SPARK_IMAGE = "registry.example.org/store/spark:0.1.0"
IMAGES = (
    "--set",
    "image.repository=registry.example.org/store/operator,spark.image.repository=registry.example.org/store/spark",
)
"""The values that have no default."""


class HelmError(Exception):
    """An error message of helm."""


def helm(*arguments: str | Path) -> str:
    """Run helm and return its output; raises HelmError with its message."""
    done = subprocess.run([program("helm"), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HelmError(f"{done.stdout}{done.stderr}")
    return done.stdout


def template(*arguments: str | Path, chart: Path = CHART) -> str:
    """The rendered chart, as text."""
    where = ("--namespace", NAMESPACE, "--kube-version", KUBE_VERSION)
    return helm("template", RELEASE, chart, *where, *IMAGES, *arguments)


def rendered(*arguments: str | Path, chart: Path = CHART) -> list[Document]:
    """The rendered chart, object by object; the definitions make it long, and this reads it in a tenth of the time."""
    documents = yaml.load_all(template(*arguments, chart=chart), Loader=yaml.CSafeLoader)
    return [document for document in documents if document]
