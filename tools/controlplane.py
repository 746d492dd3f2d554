"""Build kube-apiserver and etcd from their Go modules, once, into the project's cache folder.

python3 -m tools.controlplane            build missing programs, print their folder
python3 -m tools.controlplane --where    only print that folder
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.gobuild import Program, build_missing
from tools.machine import cache_folder

KUBERNETES_VERSION = "v1.34.4"
ETCD_VERSION = "v3.6.16"


def kubernetes_program(name: str) -> Program:
    """One of Kubernetes' own programs, with its version set; otherwise it would report v0.0.0."""
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
    return Program(
        name,
        f"k8s.io/kubernetes/cmd/{name}",
        "k8s.io/kubernetes",
        KUBERNETES_VERSION,
        {f"k8s.io/component-base/version.{key}": value for key, value in values.items()},
    )


PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", ETCD_VERSION),
    kubernetes_program("kube-apiserver"),
)


def programs_folder() -> Path:
    """The folder of the built programs; its name has their versions, so that a new version is built anew."""
    return cache_folder() / f"controlplane-kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="Build kube-apiserver and etcd for the tests.")
    parser.add_argument("--where", action="store_true", help="print the folder of the programs, build nothing")
    if not parser.parse_args().where:
        for program in PROGRAMS:
            build_missing([program], programs_folder())
    sys.stdout.write(f"{programs_folder()}\n")


if __name__ == "__main__":
    main()
