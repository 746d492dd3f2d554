"""The images' parts as CycloneDX documents: a sbom.json beside each Dockerfile, which the image contains.

The image has more parts, which ``hack/image_parts.py`` adds when it is built: Debian's packages, and jars in packages.

python3 -m hack.sbom    write them again from the locks and the jars' pom.xml
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from hack.machine import REPOSITORY, run

Component = dict[str, Any]

SPARK = REPOSITORY / "spark_images"
OPERATOR = REPOSITORY / "operator"
_KEPT = ("type", "group", "name", "version", "purl", "hashes", "licenses")
_MAVEN_PLUGIN = "org.cyclonedx:cyclonedx-maven-plugin:2.9.1:makeBom"


def packages(lock: Path) -> list[Component]:
    """The Python packages of a lock file."""
    locked = REPOSITORY / "sbom-requirements.lock"
    tool = [os.environ["UV"], "run", "--quiet", "--isolated", "--no-project", "--with-requirements", str(locked)]
    report = run([*tool, "cyclonedx-py", "requirements", "--output-reproducible", str(lock)])
    return _components(report)


def jars(pom: Path) -> list[Component]:
    """The jars that a pom.xml names, with their digests."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["-DoutputFormat=json", f"-DoutputDirectory={folder}", "-DoutputName=bom"]
        run(["mvn", "-q", "-B", "-C", "-f", pom, _MAVEN_PLUGIN, *options])
        components = _components((Path(folder) / "bom.json").read_text())
    return [{**one, "hashes": [h for h in one["hashes"] if h["alg"] == "SHA-256"]} for one in components]


def document(name: str, components: list[Component]) -> str:
    """The document of one image. It has no time of creation: the same parts give the same text."""
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": name}},
        "components": sorted(components, key=lambda one: str(one["purl"])),
    }
    return json.dumps(bom, indent=1) + "\n"


def _components(report: str) -> list[Component]:
    return [{key: one[key] for key in _KEPT if key in one} for one in json.loads(report)["components"]]


def main() -> None:
    """Write both."""
    (OPERATOR / "sbom.json").write_text(document("operator", packages(OPERATOR / "requirements.lock")))
    spark = packages(SPARK / "requirements.lock") + jars(SPARK / "jars" / "pom.xml")
    (SPARK / "sbom.json").write_text(document("spark", spark))


if __name__ == "__main__":
    main()
