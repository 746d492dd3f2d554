"""Build programs from published Go modules: all that a machine without a container registry needs is the toolchain."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tools.machine import cache_folder, lock, run, step

ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=mod -buildvcs=false",
    # A compiler lives for seconds: one that collects no garbage below this size is done a quarter sooner.
    "GOGC": "off",
    "GOMEMLIMIT": "2GiB",
}


@dataclass(frozen=True)
class Program:
    """One program to build: the file it becomes, the Go package it is made from, and the module that has it.

    `variables` are set by the linker, by their full name (package.name): most programs carry their version so. Where
    there is a `main`, that Go file is the program, in place of a package of the module's. What is not `hot` has little
    to do: without inlining it is compiled a fifth sooner.
    """

    name: str
    package: str
    module: str
    version: str
    variables: Mapping[str, str] = field(default_factory=dict)
    main: Path | None = None
    hot: bool = True


def build_missing(programs: Sequence[Program], folder: Path) -> None:
    """Build those of `programs` that `folder` lacks; parallel calls build once.

    All are of one module at one version, and are told the same: Go links some while it compiles others.
    """
    with lock(folder / "build.lock", f"build of {folder.name}"):
        missing = [program for program in programs if not (folder / program.name).exists()]
        if missing:
            names = " ".join(program.name for program in missing)
            with step(f"building {names} {missing[0].version} from {missing[0].module}"):
                _build(missing, folder)


def module_source(module: str, version: str) -> Path:
    """The folder of a module's source in Go's own cache, downloaded when missing."""
    return Path(_download(module, version)["Dir"])


def _build(programs: Sequence[Program], folder: Path) -> None:
    first = programs[0]
    module, unfinished = folder / f"module-{first.name}", folder / ".unfinished"
    for made in (module, unfinished):
        made.mkdir(exist_ok=True)
    _write_wrapper_module(first, module)
    linker = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in first.variables.items())])
    # What debuggers need is a seventh of a compiler's work, and the linker leaves it out.
    compiler = "all=-dwarf=false" if first.hot else "all=-dwarf=false -l"
    packages = [program.package for program in programs]
    if first.main:
        (module / "main.go").write_text(first.main.read_text())
    output = unfinished / first.name if len(programs) == 1 else unfinished
    flags = ["-trimpath", "-gcflags", compiler, "-ldflags", linker]
    _go(module, "build", *flags, "-o", str(output), *packages)
    # The rename is what makes it count: a build that was cut short leaves no program behind.
    for program in programs:
        (unfinished / program.name).rename(folder / program.name)
    unfinished.rmdir()


def _write_wrapper_module(program: Program, folder: Path) -> None:
    """Make a module that only depends on the program's one.

    `go install` refuses a module that has replace directives. A wrapper that repeats the replacements builds it.
    """
    for stale in ("go.mod", "go.sum"):
        (folder / stale).unlink(missing_ok=True)
    _go(folder, "mod", "init", "wrapper")
    _go(folder, "mod", "edit", f"-require={program.module}@{program.version}")
    for replaced, version in _staging_modules(program):
        _go(folder, "mod", "edit", f"-replace={replaced}={replaced}@{version}")


def _staging_modules(program: Program) -> list[tuple[str, str]]:
    """What Kubernetes replaces by folders of its own source tree is published as v0.MINOR.PATCH."""
    if program.module != "k8s.io/kubernetes":
        return []
    go_mod = Path(_download(program.module, program.version)["GoMod"]).read_text()
    published = re.sub(r"^v1\.", "v0.", program.version)
    return [(name, published) for name in re.findall(r"^\s*(k8s\.io/\S+) => \./staging/", go_mod, re.MULTILINE)]


def _download(module: str, version: str) -> dict[str, str]:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    answer: dict[str, str] = json.loads(_go(folder, "mod", "download", "-json", f"{module}@{version}"))
    return answer


def _go(folder: Path, *arguments: str) -> str:
    # Niced: the build uses every core for minutes, and nobody waits for it at a keyboard.
    return run(["nice", "-n", "10", "go", *arguments], folder=folder, environment=ENVIRONMENT)
