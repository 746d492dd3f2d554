"""Build programs from published Go modules: without a container registry, a machine needs only the toolchain."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hack.machine import cache_folder, lock, run, step

ENVIRONMENT = {
    "CGO_ENABLED": "0",
    "GOFLAGS": "-mod=mod -buildvcs=false",
    # A compiler runs for seconds: without garbage collection below this size it takes a quarter less time.
    "GOGC": "off",
    "GOMEMLIMIT": "2GiB",
}


@dataclass(frozen=True)
class Program:
    """One program to build: its file, its Go package, and the package's module.

    The linker sets ``variables``, by full name (package.name): most programs have their version in one. If there is a
    ``main``, that Go file is the program, instead of a package of the module. A program that is not ``hot`` has little
    to do: it is compiled without inlining, which takes a fifth less time.
    """

    name: str
    package: str
    module: str
    version: str
    variables: Mapping[str, str] = field(default_factory=dict)
    main: Path | None = None
    hot: bool = True


def build_missing(programs: Sequence[Program], folder: Path) -> None:
    """Build the ``programs`` that ``folder`` lacks; parallel calls build once.

    All are from one module, with one version and the same variables: Go links some while it compiles others.
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
    # Debug information is a seventh of a compiler's work, and the linker drops it.
    compiler = "all=-dwarf=false" if first.hot else "all=-dwarf=false -l"
    packages = [program.package for program in programs]
    if first.main:
        (module / "main.go").write_text(first.main.read_text())
    output = unfinished / first.name if len(programs) == 1 else unfinished
    flags = ["-trimpath", "-gcflags", compiler, "-ldflags", linker]
    _go(module, "build", *flags, "-o", str(output), *packages)
    # Renamed last, so that an interrupted build leaves no program behind.
    for program in programs:
        (unfinished / program.name).rename(folder / program.name)
    unfinished.rmdir()


def _write_wrapper_module(program: Program, folder: Path) -> None:
    """Create a module that only depends on the program's module.

    ``go install`` refuses a module with replace directives. A wrapper that repeats the replacements can be built.
    """
    for stale in ("go.mod", "go.sum"):
        (folder / stale).unlink(missing_ok=True)
    _go(folder, "mod", "init", "wrapper")
    _go(folder, "mod", "edit", f"-require={program.module}@{program.version}")
    for replaced, version in _staging_modules(program):
        _go(folder, "mod", "edit", f"-replace={replaced}={replaced}@{version}")


def _staging_modules(program: Program) -> list[tuple[str, str]]:
    """The modules that Kubernetes replaces by folders of its source tree; they are published as v0.MINOR.PATCH."""
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
    return run(["go", *arguments], folder=folder, environment=ENVIRONMENT)
