"""Debian: packages that this machine lacks, and root file systems for images, by debootstrap."""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.machine import cache_folder, lock, run, say, step

RELEASE = "bookworm"

# Images need no manuals, so dpkg leaves them out, and apt keeps no archives.
_SLIM = (
    "path-exclude=/usr/share/doc/*\n"
    "path-include=/usr/share/doc/*/copyright\n"
    "path-exclude=/usr/share/man/*\n"
    "path-exclude=/usr/share/info/*\n"
    "path-exclude=/usr/share/locale/*\n"
    "path-exclude=/usr/share/lintian/*\n"
)


def need(packages: Mapping[str, str]) -> None:
    """Install the Debian packages of missing programs; keys are programs, values their packages."""
    missing = sorted({package for program, package in packages.items() if shutil.which(program) is None})
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise SystemExit(f"this needs these Debian packages: {' '.join(missing)}")
    with step(f"installing Debian packages: {' '.join(missing)}"):
        # RUNLEVEL=1 keeps the packages from starting services: the cluster starts what it needs itself.
        environment = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        run(["apt-get", "update"], environment=environment)
        run(["apt-get", "install", "--yes", "--no-install-recommends", *missing], environment=environment)


def root_file_system(name: str, packages: Sequence[str]) -> Path:
    """The folder of a Debian root file system with ``packages``; built once, never changed."""
    wanted = hashlib.sha256(" ".join([RELEASE, *sorted(packages)]).encode()).hexdigest()[:12]
    folder = cache_folder() / "debian" / f"{name}-{wanted}"
    with lock(cache_folder() / "debian" / "lock", "Debian installation"):
        if not folder.exists():
            minimal = _minimal()
            with step(f"Debian root file system for {name}"):
                unfinished = _fresh(folder)
                run(["cp", "--archive", minimal, unfinished])
                _install(unfinished, packages)
                unfinished.rename(folder)
    return folder


def _minimal() -> Path:
    folder = cache_folder() / "debian" / f"minimal-{RELEASE}"
    if not folder.exists():
        with step(f"debootstrap {RELEASE}"):
            unfinished = _fresh(folder)
            sources = _sources()
            mirror = [sources[0].split()[1]] if sources else []
            run(["debootstrap", "--variant=minbase", RELEASE, unfinished, *mirror])
            if sources:
                (unfinished / "etc/apt/sources.list").write_text("\n".join(sources) + "\n")
            unfinished.rename(folder)
    return folder


def _fresh(folder: Path) -> Path:
    """An empty folder beside ``folder``, to be renamed once complete, so that an interrupted build never counts."""
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    if unfinished.exists():
        shutil.rmtree(unfinished)
    return unfinished


def _sources() -> list[str]:
    """This machine's own sources of the release, as lines of sources.list, the release proper first."""
    targets = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)"]).split("\n")
    lines = {f"deb {target}" for target in targets if target.partition(" ")[2].startswith(RELEASE)}
    ours = sorted((line for line in lines if line.endswith(" main")), key=lambda line: (len(line.split()[2]), line))
    if not ours or ours[0].split()[2] != RELEASE:
        say(f"this machine has no source of {RELEASE}: debootstrap uses its default")
        return []
    return ours


def _install(root: Path, packages: Sequence[str]) -> None:
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(_SLIM)
    (root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")
    (root / "usr/sbin/policy-rc.d").chmod(0o755)
    shutil.copyfile("/etc/resolv.conf", root / "etc/resolv.conf")
    wanted = " ".join(packages)
    script = (
        f"mount -t proc proc {root}/proc && exec chroot {root} /bin/sh -ec '"
        "export DEBIAN_FRONTEND=noninteractive; apt-get -q update; apt-get -q --yes upgrade; "
        f"apt-get -q --yes install --no-install-recommends {wanted}; apt-get clean'"
    )
    # In its own mount namespace: /proc is unmounted when the command ends, however that happens.
    run(["unshare", "--mount", "sh", "-ec", script])
    for leftover in ("usr/sbin/policy-rc.d", "etc/resolv.conf", "etc/machine-id"):
        (root / leftover).unlink(missing_ok=True)
    _empty(root, "var/lib/apt/lists", "var/cache", "var/log", "usr/share/locale", "usr/share/man", "usr/share/info")


def _empty(root: Path, *folders: str) -> None:
    for folder in folders:
        for entry in (root / folder).glob("*"):
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
