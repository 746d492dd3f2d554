"""The programs of the cluster, built from Go modules into the cache, with a folder for each version.

python3 -m hack.programs [NAME...]    build missing programs (all by default), print their files
"""

import sys
from pathlib import Path

from hack.gobuild import Program, build_missing
from hack.machine import cache_folder

KUBERNETES_VERSION = "v1.34.4"
ETCD_VERSION = "v3.6.16"
KIND_VERSION = "v0.33.0"
HELM_VERSION = "v3.22.0"
COREDNS_VERSION = "v1.14.5"
SPARK_OPERATOR_VERSION = "v2.5.2"
VERSITYGW_VERSION = "v1.8.0"
GRAFANA_SDK_VERSION = "v0.0.22"
KUBE_SCORE_VERSION = "v1.20.0"


def _kubernetes_program(name: str) -> Program:
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


CONTROL_PLANE = (
    Program("etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", ETCD_VERSION),
    _kubernetes_program("kube-apiserver"),
)
"""What the operator's tests need without a cluster, in a folder of its own."""

KUBERNETES = tuple(
    _kubernetes_program(name)
    for name in ("kubeadm", "kubelet", "kubectl", "kube-controller-manager", "kube-scheduler", "kube-proxy")
)

_OTHERS = (
    Program("kind", "sigs.k8s.io/kind", "sigs.k8s.io/kind", KIND_VERSION, hot=False),
    Program(
        "helm",
        "helm.sh/helm/v3/cmd/helm",
        "helm.sh/helm/v3",
        HELM_VERSION,
        {"helm.sh/helm/v3/internal/version.version": HELM_VERSION},
        hot=False,
    ),
    Program(
        "coredns",
        ".",
        "github.com/coredns/coredns",
        COREDNS_VERSION,
        main=Path(__file__).with_name("coredns.go"),
        hot=False,
    ),
    Program(
        "spark-operator",
        "github.com/kubeflow/spark-operator/v2/cmd/operator",
        "github.com/kubeflow/spark-operator/v2",
        SPARK_OPERATOR_VERSION,
        hot=False,
    ),
    Program(
        "versitygw", "github.com/versity/versitygw/cmd/versitygw", "github.com/versity/versitygw", VERSITYGW_VERSION
    ),
    Program(
        "dashboard-check",
        ".",
        "github.com/grafana/grafana-foundation-sdk/go",
        GRAFANA_SDK_VERSION,
        main=Path(__file__).parent / "dashboard/check.go",
        hot=False,
    ),
    Program(
        "kube-score",
        "github.com/zegl/kube-score/cmd/kube-score",
        "github.com/zegl/kube-score",
        KUBE_SCORE_VERSION,
        hot=False,
    ),
)

PROGRAMS = {program.name: program for program in (*CONTROL_PLANE, *KUBERNETES, *_OTHERS)}


def program(name: str) -> Path:
    """The file of a program, which is built if missing; Kubernetes' own programs are built together."""
    needed = PROGRAMS[name]
    folder = _folder(needed)
    build_missing(KUBERNETES if needed in KUBERNETES else [needed], folder)
    return folder / name


def _folder(wanted: Program) -> Path:
    if wanted in CONTROL_PLANE:
        return cache_folder() / f"controlplane-kubernetes-{KUBERNETES_VERSION}-etcd-{ETCD_VERSION}"
    if wanted in KUBERNETES:
        return cache_folder() / f"kubernetes-{wanted.version}"
    return cache_folder() / f"{wanted.name}-{wanted.version}"


def main() -> None:
    """Run the command line."""
    for name in sys.argv[1:] or PROGRAMS:
        sys.stdout.write(f"{program(name)}\n")


if __name__ == "__main__":
    main()
