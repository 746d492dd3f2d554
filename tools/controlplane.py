#!/usr/bin/env python3
"""Build a kube-apiserver and an etcd from their Go modules, once, into the project's cache folder.

A machine without a container registry can still test against the real thing: the Go toolchain is enough.
Needs nothing but the standard library, so that it runs before the project is installed.

    tools/controlplane.py            build what is missing, print the folder that holds the programs
    tools/controlplane.py --where    print that folder and build nothing
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

KUBERNETES_VERSION = "v1.34.4"
ETCD_VERSION = "v3.6.16"


@dataclass(frozen=True)
class Program:
    """One program to build: the file it becomes, the Go package it is made from, and the module that has it."""

    name: str
    package: str
    module: str
    version: str
    ldflags: str = "-s -w"


def _kubernetes_ldflags() -> str:
    """The linker flags that tell the apiserver its version; without them it calls itself v0.0.0."""
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    package = "k8s.io/component-base/version"
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X {package}.{name}={value}" for name, value in values.items())])


PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", ETCD_VERSION),
    Program(
        "kube-apiserver",
        "k8s.io/kubernetes/cmd/kube-apiserver",
        "k8s.io/kubernetes",
        KUBERNETES_VERSION,
        _kubernetes_ldflags(),
    ),
)


def cache_folder() -> Path:
    """Where the project keeps what is slow to get: outside the work tree, shared by all clones."""
    if own := os.environ.get("MESSAGESTORE_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "message-store-operator"


def programs_folder() -> Path:
    """The folder of the built programs, named after the versions so that another version is another build."""
    return cache_folder() / f"controlplane-kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}"


def build_missing() -> Path:
    """Build each program that isn't there yet and return their folder; parallel calls build once."""
    folder = programs_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder / "build.lock"):
        for program in PROGRAMS:
            if not (folder / program.name).exists():
                _build(program, folder)
    return folder


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is under way, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _build(program: Program, folder: Path) -> None:
    _say(f"building {program.name} {program.version} from {program.module}; a cold build takes minutes")
    started = time.monotonic()
    module = folder / f"module-{program.name}"
    module.mkdir(exist_ok=True)
    _write_wrapper_module(program, module)
    unfinished = folder / f".{program.name}.unfinished"
    _go(module, "build", "-trimpath", "-ldflags", program.ldflags, "-o", str(unfinished), program.package)
    # The rename is what makes it count: a build that was cut short leaves no program behind.
    unfinished.rename(folder / program.name)
    _say(f"built {program.name} in {time.monotonic() - started:.0f} s")


def _write_wrapper_module(program: Program, folder: Path) -> None:
    """Make a module that only depends on the program's one.

    `go install` refuses a module that has replace directives. A wrapper that repeats the replacements builds it.
    """
    for stale in ("go.mod", "go.sum"):
        (folder / stale).unlink(missing_ok=True)
    _go(folder, "mod", "init", "controlplane")
    _go(folder, "mod", "edit", f"-require={program.module}@{program.version}")
    for replaced, version in _staging_modules(program, folder):
        _go(folder, "mod", "edit", f"-replace={replaced}={replaced}@{version}")
    _go(folder, "mod", "edit", f"-tool={program.package}")
    _go(folder, "mod", "tidy")


def _staging_modules(program: Program, folder: Path) -> list[tuple[str, str]]:
    """What Kubernetes replaces by folders of its own source tree is published as v0.MINOR.PATCH."""
    if program.module != "k8s.io/kubernetes":
        return []
    answer = _go(folder, "mod", "download", "-json", f"{program.module}@{program.version}")
    go_mod = Path(json.loads(answer)["GoMod"]).read_text()
    published = re.sub(r"^v1\.", "v0.", program.version)
    return [(name, published) for name in re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", go_mod, re.MULTILINE)]


def _go(folder: Path, *arguments: str) -> str:
    # Niced: the build uses every core for minutes, and nobody waits for it at a keyboard.
    command = ["nice", "-n", "10", "go", *arguments]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=mod -buildvcs=false"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"controlplane: {' '.join(command[3:])} failed in {folder}:\n{done.stderr.strip()}")
    return done.stdout


def _say(message: str) -> None:
    sys.stderr.write(f"controlplane: {message}\n")
    sys.stderr.flush()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Build kube-apiserver and etcd for the tests.")
    parser.add_argument("--where", action="store_true", help="print the folder of the programs, build nothing")
    folder = programs_folder() if parser.parse_args().where else build_missing()
    sys.stdout.write(f"{folder}\n")


if __name__ == "__main__":
    main()
