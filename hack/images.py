"""The project's container images, and those of programs that its tests use.

Each build gets a context folder that is filled here, including Python packages from the lock files. So the same
Dockerfiles build with and without a registry, and a build without one needs no network.

python3 -m hack.images    build them with the machine's Docker, from the Dockerfiles' base images
"""

import hashlib
import os
import platform
import shutil
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

from hack import debian, programs
from hack.docker import Docker
from hack.machine import REPOSITORY, cache_folder, fresh, run, step

PREFIX = "localhost/message-store-operator"
"""Nobody can own it: a cluster or a build that lacks such an image asks its own machine, and no public registry."""
PYTHON_VERSION = "3.11"
"""The Python of Debian bookworm, the images' base."""

SPARK = REPOSITORY / "spark_images"
CORE = REPOSITORY / "core"
LIBRARY = REPOSITORY / "library"
OPERATOR = REPOSITORY / "operator"

_PARTS = REPOSITORY / "hack" / "image_parts.py"
_BUILT_BY: tuple[str | Path, ...] = ("--build-constraint", REPOSITORY / "build-requirements.lock")
_SPARK_PACKAGES = ("ca-certificates", "openjdk-17-jre-headless", "python3", "tini", "tzdata")
_PYTHON_PACKAGES = ("ca-certificates", "python3", "tzdata")


def _base(docker: Docker, name: str, packages: tuple[str, ...]) -> Mapping[str, str]:
    """Build arguments that name the base image: none if a registry has the Dockerfile's own."""
    if not docker.own:
        return {}
    root = debian.root_file_system(name, packages)
    image = f"{PREFIX}/debian-{root.name.replace('-', ':', 1)}"
    if not docker.has_image(image):
        with step(f"base image {image}"):
            docker.pipe(["tar", "-C", root, "--numeric-owner", "-c", "."], "import", "-", image)
    return {"BASE": image}


def _build(docker: Docker, image: str, dockerfile: Path, context: Path, arguments: Mapping[str, str]) -> str:
    """Build ``image`` and return its name; the daemon itself skips unchanged steps."""
    options = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    with step(f"image {image}"):
        docker.run("build", "--quiet", "--tag", image, "--file", dockerfile, *options, context)
    return image


def spark_dependencies(docker: Docker) -> str:
    """The base image of the jobs' image and the Spark operator's; built once for each state of its sources."""
    digest = _digest([SPARK / name for name in ("requirements.lock", "dependencies.Dockerfile", "unused.txt")])
    image = f"{PREFIX}/spark-dependencies:{digest}"
    context = _jobs_packages().parent
    if docker.has_image(image):
        return image
    arguments = _base(docker, "spark", _SPARK_PACKAGES)
    _build(docker, image, SPARK / "dependencies.Dockerfile", context, arguments)
    docker.drop_others(image)
    return image


def spark(docker: Docker) -> str:
    """The jobs' image."""
    dependencies = spark_dependencies(docker)
    context = cache_folder() / "images" / "spark"
    context.mkdir(parents=True, exist_ok=True)
    # The script itself checks whether the jars match the sources.
    build_jars: list[str | Path] = [SPARK / "jars" / "build.sh", sys.executable, context / "jars"]
    run(build_jars, environment={"PYTHONPATH": str(_jobs_packages())})
    for name in ("entrypoint.sh", "main.py", "sbom.json"):
        shutil.copy(SPARK / name, context / name)
    shutil.copy(_PARTS, context / _PARTS.name)
    for package in (LIBRARY / "messagestore", CORE / "messagestore_core", SPARK / "messagestore_jobs"):
        shutil.rmtree(context / package.name, ignore_errors=True)
        shutil.copytree(package, context / package.name, ignore=shutil.ignore_patterns("__pycache__"))
    image = f"{PREFIX}/spark:{project_version()}"
    return _build(docker, image, SPARK / "Dockerfile", context, {"DEPENDENCIES": dependencies})


def _jobs_packages() -> Path:
    """The folder with the jobs' Python packages, without files that they don't use."""
    folder = cache_folder() / "images" / "spark-dependencies" / "site"
    _install_packages(SPARK / "requirements.lock", folder, SPARK / "unused.txt")
    return folder


def operator(docker: Docker) -> str:
    """The operator's image."""
    context = cache_folder() / "images" / "operator"
    _install_packages(OPERATOR / "requirements.lock", context / "site")
    _install_project(context / "project")
    for file in (OPERATOR / "sbom.json", _PARTS):
        shutil.copy(file, context / file.name)
    image = f"{PREFIX}/operator:{project_version()}"
    arguments = _base(docker, "python", _PYTHON_PACKAGES)
    return _build(docker, image, OPERATOR / "Dockerfile", context, arguments)


def spark_operator(docker: Docker) -> str:
    """The image of Kubeflow's Spark operator, with the Spark of the jobs' image."""
    image = f"{PREFIX}/spark-operator:{programs.SPARK_OPERATOR_VERSION}"
    return _of_program(docker, image, "spark-operator", {"DEPENDENCIES": spark_dependencies(docker)})


def versitygw(docker: Docker) -> str:
    """The image of the S3 server that the tests use."""
    return _of_program(docker, f"{PREFIX}/versitygw:{programs.VERSITYGW_VERSION}", "versitygw", {})


def _of_program(docker: Docker, image: str, name: str, arguments: Mapping[str, str]) -> str:
    context = fresh(cache_folder() / "images" / name)
    shutil.copy(programs.program(name), context / name)
    return _build(docker, image, REPOSITORY / "hack/dockerfiles" / f"{name}.Dockerfile", context, arguments)


def project_version() -> str:
    """The project's version, which is the tag of its images."""
    return str(tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["version"])


def _install_packages(requirements: Path, folder: Path, unused: Path | None = None) -> None:
    """Install a lock file's packages into ``folder``, for the image's Python, without the files in ``unused``.

    An existing folder stays, unless either file has changed.
    """
    stamp = folder.with_name(f"{folder.name}.stamp")
    digest = _digest([requirements, *([unused] if unused else [])])
    if stamp.exists() and stamp.read_text() == digest:
        return
    # Until they are whole the folder has the packages of no lock file, also not of the one that it had before.
    stamp.unlink(missing_ok=True)
    with step(f"Python packages of {requirements.relative_to(REPOSITORY)}"):
        fresh(folder)
        target = ["--python-version", PYTHON_VERSION, "--python-platform", f"{platform.machine()}-manylinux_2_28"]
        options: list[str | Path] = ["--quiet", "--require-hashes", *target, "--target", folder]
        run([_uv(), "pip", "install", *options, *_BUILT_BY, "--requirement", requirements])
        if unused:
            _remove(folder, unused)
    stamp.write_text(digest)


def _install_project(folder: Path) -> None:
    """Install the project itself: its packages, and the metadata with its version."""
    fresh(folder)
    run([_uv(), "pip", "install", "--quiet", *_BUILT_BY, "--no-deps", "--target", folder, REPOSITORY])
    shutil.rmtree(folder / "bin", ignore_errors=True)
    # Files that differ between installations would make each build a new image.
    for varying in ("RECORD", "direct_url.json", "uv_cache.json"):
        for file in folder.glob(f"*.dist-info/{varying}"):
            file.unlink()


def _remove(site: Path, unused: Path) -> None:
    patterns = [line for line in unused.read_text().splitlines() if line and not line.startswith("#")]
    for pattern in patterns:
        paths = list(site.glob(pattern))
        if not paths:
            raise SystemExit(f"{unused}: {pattern} is nowhere to be found")
        for path in paths:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _digest(files: list[Path]) -> str:
    together = hashlib.sha256()
    for file in files:
        together.update(file.name.encode() + b"\0" + hashlib.sha256(file.read_bytes()).digest())
    return together.hexdigest()[:12]


def _uv() -> str:
    installed = sorted(cache_folder().glob("uv-*/bin/uv"))
    uv = os.environ.get("UV") or shutil.which("uv") or (installed and str(installed[-1]))
    if not uv:
        raise SystemExit("no uv: run this through make, which installs it")
    return uv


def main() -> None:
    """Run the command line."""
    for build in (spark, operator):
        sys.stdout.write(f"{build(Docker(own=False, environment={}))}\n")


if __name__ == "__main__":
    main()
