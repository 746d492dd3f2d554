"""Where the parts come from: a checksum identifies each, and an image lists its parts."""

import json
import os
import re
import subprocess
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hack.image_parts import with_parts_of
from hack.images import PREFIX

REPOSITORY = Path(__file__).resolve().parents[3]
OWN_BASES = [*REPOSITORY.glob("*/*Dockerfile")]
LOCKS = sorted(REPOSITORY.glob("**/*requirements.lock"))
IMAGES = ["operator", "spark_images"]


@pytest.mark.parametrize("dockerfile", OWN_BASES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_base_image_of_a_registry_is_named_by_digest(dockerfile: Path) -> None:
    bases = re.findall(r"^ARG \w+=(\S+)$", dockerfile.read_text(), re.MULTILINE)
    froms = re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.MULTILINE)
    assert froms
    assert all(re.fullmatch(r"\S+@sha256:[0-9a-f]{64}", base) for base in bases)
    assert all(base.startswith("${") for base in froms), "a base that is no argument"


def test_no_image_that_is_built_here_has_a_name_of_the_public_registry() -> None:
    assert PREFIX.startswith("localhost/")
    values = {path.name: path.read_text() for path in (REPOSITORY / "hack/manifests").glob("*.yaml")}
    named = re.findall(r"(?:image|registry|repository): (\S*message-store-operator\S*)", "\n".join(values.values()))
    assert len(named) == 4
    assert all(name.startswith(PREFIX) for name in named)


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_a_lock_names_every_package_by_hash(lock: Path) -> None:
    packages = re.split(r"\n(?=\S)", lock.read_text().strip())
    assert packages
    assert all("--hash=sha256:" in package for package in packages)


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_names_every_python_package_that_it_installs(image: str) -> None:
    locked = re.findall(r"^(\S+)==(\S+)", (REPOSITORY / image / "requirements.lock").read_text(), re.MULTILINE)
    told = {one["purl"] for one in components(image)}
    assert locked
    assert {f"pkg:pypi/{name}@{version}" for name, version in locked} == {p for p in told if p.startswith("pkg:pypi/")}


def test_the_image_of_the_jobs_names_every_jar_by_its_digest() -> None:
    sums = dict(reversed(line.split()) for line in (REPOSITORY / "spark_images/jars/checksums.txt").open())
    told = {
        f"{one['name']}-{one['version']}.jar": one["hashes"][0]["content"]
        for one in components("spark_images")
        if one["purl"].startswith("pkg:maven/")
    }
    assert told == sums


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_carries_what_it_is_made_of(image: str) -> None:
    dockerfile = (REPOSITORY / image / "Dockerfile").read_text()
    assert re.search(r"^COPY .*sbom\.json .*/opt/messagestore/$", dockerfile, re.M)
    assert "python3 /opt/messagestore/image_parts.py /opt/messagestore/sbom.json" in dockerfile


def test_an_image_also_names_what_only_it_knows(tmp_path: Path) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(
        "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nVersion: 2.36-9+deb12u13\nTag: a\n b\n\n"
        "Package: gone\nStatus: deinstall ok config-files\nArchitecture: amd64\nVersion: 1\n"
    )
    site = tmp_path / "usr/local/lib/python3.11/dist-packages"
    for name in ("Known_Name", "brought-along"):
        metadata = site / f"{name}-1.0.dist-info" / "METADATA"
        metadata.parent.mkdir(parents=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\nName: of the text\n")
    known = jar(tmp_path / "opt/messagestore/jars/known-2.0.jar", "org.known:known:2.0")
    jar(site / "pyspark/jars/netty-4.2-linux-x86_64.jar", "io.netty:netty:4.2")
    jar(site / "pyspark/jars/shaded-3.1.jar", "org.inner:inner:9")
    jar(site / "pyspark/jars/plain.jar")
    bom = {
        "components": [
            {"purl": "pkg:pypi/known-name@1.0", "licenses": ["kept"]},
            {"purl": "pkg:maven/org.known/known@2.0?type=jar", "hashes": [{"content": known}]},
        ]
    }

    completed = with_parts_of(bom, tmp_path)

    assert [one["purl"] for one in completed["components"]] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64",
        "pkg:generic/plain",
        "pkg:generic/shaded@3.1",
        "pkg:maven/io.netty/netty@4.2?classifier=linux-x86_64",
        "pkg:maven/org.known/known@2.0?type=jar",
        "pkg:pypi/brought-along@1.0",
        "pkg:pypi/known-name@1.0",
    ]
    assert bom["components"][0] in completed["components"]
    assert with_parts_of(completed, tmp_path) == completed


def jar(file: Path, coordinates: str | None = None) -> str:
    """Make a jar, with Maven's coordinates of something in it; returns its digest."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(file, "w") as content:
        content.writestr("name", file.name)
        if coordinates is not None:
            group, artifact, version = coordinates.split(":")
            told = f"#made\nversion={version}\ngroupId={group}\nartifactId={artifact}\n"
            content.writestr(f"META-INF/maven/{group}/{artifact}/pom.properties", told)
    return sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("brought", [b"another", None], ids=["another", "one too few"])
def test_jars_that_are_not_those_of_the_checksums_are_refused(tmp_path: Path, brought: bytes | None) -> None:
    good = fetched(tmp_path, {"a.jar": b"a", "b.jar": b"b"})
    assert good.returncode == 0, good.stderr
    bad = fetched(tmp_path, {"a.jar": b"a"} | ({"b.jar": brought} if brought else {}))
    assert bad.returncode == 1
    assert "b.jar" in bad.stderr


def fetched(folder: Path, jars: dict[str, bytes]) -> subprocess.CompletedProcess[str]:
    """The result of a fetch where Maven returns these jars, and a.jar and b.jar are expected."""
    served, programs, made = folder / "served", folder / "bin", folder / "made"
    for path in (served, programs, made):
        subprocess.run(["rm", "-rf", path], check=True)
        path.mkdir()
    for name, content in jars.items():
        (served / name).write_bytes(content)
    due = {"a.jar": b"a", "b.jar": b"b"}
    (folder / "checksums.txt").write_text("".join(f"{sha256(c).hexdigest()}  {n}\n" for n, c in due.items()))
    (programs / "mvn").write_text(f"#!/bin/sh\ncp {served}/*.jar {made}\n")
    (programs / "mvn").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    fetch = REPOSITORY / "spark_images/jars/fetch.sh"
    return subprocess.run(
        [fetch, folder / "pom.xml", made], env=environment, capture_output=True, text=True, check=False
    )


def components(image: str) -> list[Any]:
    return json.loads((REPOSITORY / image / "sbom.json").read_text())["components"]
