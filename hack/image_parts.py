"""Adds to an image's list of parts what only the image knows: its Debian packages, and the jars within packages.

Each build runs this file inside the image, with nothing but Python: python3 image_parts.py /opt/messagestore/sbom.json
"""

import hashlib
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

Component = dict[str, Any]

_STATUS = Path("var/lib/dpkg/status")
_VERSION = re.compile(r"(.+?)-(\d.*)")


def with_parts_of(bom: dict[str, Any], root: Path) -> dict[str, Any]:
    """The list with the Debian packages, Python packages and jars below ``root``; what it names already stays."""
    named = {one["purl"] for one in bom["components"]}
    digests = {digest["content"] for one in bom["components"] for digest in one.get("hashes", ())}
    parts = [*_debian(root), *_python(root), *_jars(root)]
    added = {
        one["purl"]: one
        for one in parts
        if one["purl"] not in named and not digests & {digest["content"] for digest in one.get("hashes", ())}
    }
    return {**bom, "components": sorted([*bom["components"], *added.values()], key=lambda one: str(one["purl"]))}


def _debian(root: Path) -> Iterator[Component]:
    status = root / _STATUS
    for paragraph in status.read_text(encoding="utf-8").split("\n\n") if status.exists() else ():
        fields = dict(re.findall(r"^(Package|Status|Version|Architecture): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            name, version, machine = fields["Package"], fields["Version"], fields["Architecture"]
            purl = f"pkg:deb/debian/{quote(name)}@{quote(version)}?arch={machine}"
            yield {"type": "library", "name": name, "version": version, "purl": purl}


def _python(root: Path) -> Iterator[Component]:
    for file in sorted(root.glob("usr/**/*.dist-info/METADATA")):
        fields = dict(
            re.findall(r"^(Name|Version): (.*)$", file.read_text(encoding="utf-8").partition("\n\n")[0], re.M)
        )
        name, version = re.sub(r"[-_.]+", "-", fields["Name"]).lower(), fields["Version"]
        yield {"type": "library", "name": name, "version": version, "purl": f"pkg:pypi/{name}@{quote(version)}"}


def _jars(root: Path) -> Iterator[Component]:
    for top in ("usr", "opt"):
        for file in sorted((root / top).rglob("*.jar")):
            if file.is_file():
                yield _jar(file)


def _jar(file: Path) -> Component:
    """By the coordinates that Maven left in it; without those of its own, by the name of the file."""
    matched = _VERSION.fullmatch(file.stem)
    name, version = (matched[1], matched[2]) if matched else (file.stem, "")
    own = next((one for one in _coordinates(file) if f"{file.stem}-".startswith(_begins(one))), None)
    group, path, classifier = {}, "generic", ""
    if own:
        name, version = own["artifactId"], own["version"]
        group, path = {"group": own["groupId"]}, f"maven/{quote(own['groupId'])}"
        classifier = file.stem[len(_begins(own)) :]
    purl = f"pkg:{path}/{quote(name)}{version and '@'}{quote(version)}{classifier and '?classifier='}{classifier}"
    with file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    hashes = [{"alg": "SHA-256", "content": digest}]
    return {"type": "library", **group, "name": name, "version": version, "purl": purl, "hashes": hashes}


def _begins(fields: dict[str, str]) -> str:
    return f"{fields['artifactId']}-{fields['version']}-"


def _coordinates(file: Path) -> Iterator[dict[str, str]]:
    with zipfile.ZipFile(file) as jar:
        for name in jar.namelist():
            if re.fullmatch(r"META-INF/maven/[^/]+/[^/]+/pom\.properties", name):
                text = jar.read(name).decode(errors="replace")
                fields = dict(re.findall(r"^(\w+)\s*=\s*(.*?)\s*$", text, re.MULTILINE))
                if {"groupId", "artifactId", "version"} <= fields.keys():
                    yield fields


def main() -> None:
    """Add to the file that the argument names."""
    file = Path(sys.argv[1])
    bom = with_parts_of(json.loads(file.read_text(encoding="utf-8")), Path("/"))
    file.write_text(json.dumps(bom, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
