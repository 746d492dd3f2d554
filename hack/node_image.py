"""A kind node image without any container registry, from Debian packages and programs built from Go modules.

Comments explain differences from kind's own image; docs/cluster.md has an overview.
"""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

from hack import debian, programs
from hack.docker import Docker, wait_until
from hack.gobuild import module_source
from hack.images import PREFIX
from hack.machine import REPOSITORY, cache_folder, run, step
from hack.oci import write_image
from hack.programs import ETCD_VERSION, KUBERNETES_VERSION

POD_SUBNET = "10.244.0.0/24"

_PACKAGES = (
    *("systemd", "systemd-sysv", "kmod", "mount", "util-linux", "procps", "bash", "jq", "curl", "ca-certificates"),
    *("containerd", "runc", "containernetworking-plugins", "libseccomp2"),
    *("iptables", "nftables", "conntrack", "iproute2", "ethtool", "socat"),
)

# There is only one node: addresses come from its own range, and there are no routes to other nodes.
_NETWORK = {
    "cniVersion": "0.4.0",
    "name": "messagestore",
    "plugins": [
        {
            "type": "ptp",
            "mtu": 1500,
            "ipMasq": False,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni-ipam-state",
                "ranges": [[{"subnet": POD_SUBNET}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        },
        {"type": "portmap", "capabilities": {"portMappings": True}},
    ],
}

# kind enables the controller manager's host-path provisioner, which is enough for one node.
_STORAGE = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: standard
  annotations: {storageclass.kubernetes.io/is-default-class: "true"}
provisioner: kubernetes.io/host-path
"""

_PAUSE = """\
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			os.Exit(0)
		}
		for {
			var status syscall.WaitStatus
			if pid, _ := syscall.Wait4(-1, &status, syscall.WNOHANG, nil); pid <= 0 {
				break
			}
		}
	}
}
"""


def build(docker: Docker) -> str:
    """Build the node image unless the daemon has it, and return its name, which contains a digest of its recipe."""
    name = f"{PREFIX}/node:{KUBERNETES_VERSION}-{_recipe()}"
    if not docker.has_image(name):
        debian.need({"debootstrap": "debootstrap", "containerd": "containerd", "ctr": "containerd"})
        with step("node image"):
            _build(docker, name)
        docker.drop_others(name)
    return name


def _recipe() -> str:
    sources = [REPOSITORY / "hack" / f"{name}.py" for name in ("node_image", "oci", "debian", "programs")]
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def _build(docker: Docker, name: str) -> None:
    work = cache_folder() / "node-image"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    root = work / "root"
    run(["cp", "--archive", debian.root_file_system("node", _PACKAGES), root])
    _lay_out(root)
    archives = work / "archives"
    archives.mkdir()
    _write_archives(root, work, archives)
    _import(root, work, sorted(archives.iterdir()))
    docker.pipe(["tar", "-C", root, "--numeric-owner", "-c", "."], "import", "-", f"{name}-root")
    # `docker import --change` knows no STOPSIGNAL.
    docker.run("build", "--quiet", "--tag", name, "-", stdin=_dockerfile(f"{name}-root"))
    docker.run("rmi", f"{name}-root")
    shutil.rmtree(work)


def _dockerfile(base: str) -> str:
    return (
        f"FROM {base}\n"
        "ENV container=docker PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
        "STOPSIGNAL SIGRTMIN+3\n"
        'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]\n'
    )


def _lay_out(root: Path) -> None:
    """Turn a Debian root file system into a kind node."""
    _copy_kind_files(root)
    for name in ("kubeadm", "kubelet", "kubectl"):
        shutil.copy(programs.program(name), root / "usr/bin" / name)
    (root / "usr/local/bin/containerd").symlink_to("/usr/bin/containerd")  # the path in kind's unit
    for folder in ("opt/cni/bin", "etc/cni/net.d", "kind/manifests", "etc/kubernetes/manifests"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for plugin in ("ptp", "host-local", "loopback", "portmap"):
        shutil.copy(root / "usr/lib/cni" / plugin, root / "opt/cni/bin" / plugin)
    (root / "etc/cni/net.d/10-messagestore.conflist").write_text(json.dumps(_NETWORK))
    (root / "kind/version").write_text(KUBERNETES_VERSION)
    (root / "kind/manifests/default-cni.yaml").write_text("apiVersion: v1\nkind: List\nitems: []\n")
    (root / "kind/manifests/default-storage.yaml").write_text(_STORAGE)
    _configure_containerd(root)
    _hide_unmounted_control_groups(root)
    _configure_systemd(root)


def _copy_kind_files(root: Path) -> None:
    files = module_source("sigs.k8s.io/kind", programs.KIND_VERSION) / "images/base/files"
    run(["cp", "--recursive", "--no-preserve=mode,ownership", f"{files}/.", root])
    for folder in ("usr/local/bin", "kind/bin"):
        for file in (root / folder).iterdir():
            file.chmod(0o755)
    (root / "kind").chmod(0o755)
    (root / "usr/local/bin/clean-install").unlink()


def _configure_containerd(root: Path) -> None:
    config = root / "etc/containerd/config.toml"
    # Without CAP_SYS_RESOURCE no container may get an out-of-memory score below that of its creator.
    text = _replaced(config.read_text(), "restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    config.write_text(re.sub(r"sandbox_image = .*", f'sandbox_image = "{_pause_image()}"', text))
    base = json.loads(run(["ctr", "oci", "spec"]))
    hooks = base.setdefault("hooks", {}).setdefault("createContainer", [])
    hooks.append({"path": "/kind/bin/mount-product-files.sh"})
    base["process"].pop("rlimits", None)
    (root / "etc/containerd/cri-base.json").write_text(json.dumps(base))


def _hide_unmounted_control_groups(root: Path) -> None:
    """Keep the node's systemd from mounting controllers that the machine lacks: that would enable them for all."""
    entrypoint = root / "usr/local/bin/entrypoint"
    hide = (
        "awk '/^#/||$2!=0' /proc/cgroups > /kind/cgroups\n"
        'if ! cmp -s /kind/cgroups /proc/cgroups && [ "$(wc -l < /kind/cgroups)" -gt 1 ]; then\n'
        "  mount --bind /kind/cgroups /proc/cgroups\n"
        "fi\n"
    )
    marker = "# run pre-init fixups"
    entrypoint.write_text(_replaced(entrypoint.read_text(), marker, f"{hide}{marker}"))


def _configure_systemd(root: Path) -> None:
    """Start only the services that a node needs, like kind's own image."""
    units = root / "lib/systemd/system"
    for unwanted in (
        *units.glob("sysinit.target.wants/systemd-tmpfiles-setup.service"),
        *units.glob("multi-user.target.wants/*"),
        *(root / "etc/systemd/system").glob("*.wants/*"),
        *units.glob("local-fs.target.wants/*"),
        *units.glob("sockets.target.wants/*udev*"),
        *units.glob("sockets.target.wants/*initctl*"),
        *units.glob("basic.target.wants/*"),
    ):
        unwanted.unlink()
    with (root / "etc/systemd/journald.conf").open("a") as file:
        file.write("ReadKMsg=no\n")
    run(["chroot", root, "systemctl", "enable", "kubelet.service", "containerd.service", "undo-mount-hacks.service"])
    run(["chroot", root, "systemctl", "mask", "systemd-binfmt.service"])
    (root / "etc/machine-id").write_text("")


def _write_archives(root: Path, work: Path, archives: Path) -> None:
    """Write each image that kubeadm names, under the same name."""
    for image in _kubeadm_images():
        short = image.rpartition("/")[2].partition(":")[0]
        archive = archives / f"{short}.tar"
        if short == "pause":
            write_image(archive, image, {"pause": _build_pause(work)}, ["/pause"], user="65534:65534")
        elif short == "kube-proxy":
            write_image(archive, image, _proxy_files(root, work), [short])
        elif short == "coredns":
            write_image(archive, image, {"coredns": programs.program(short)}, ["/coredns"])
        else:
            write_image(archive, image, {f"usr/local/bin/{short}": programs.program(short)}, [short])


def _kubeadm_images() -> list[str]:
    listed = run([programs.program("kubeadm"), "config", "images", "list", "--kubernetes-version", KUBERNETES_VERSION])
    images = listed.split()
    if not any("/etcd:" in image for image in images):
        raise SystemExit(f"kubeadm names no etcd image; {ETCD_VERSION} was built for it")
    return images


def _pause_image() -> str:
    return next(image for image in _kubeadm_images() if "/pause:" in image)


def _build_pause(work: Path) -> Path:
    (work / "pause.go").write_text(_PAUSE)
    command = ["go", "build", "-trimpath", "-ldflags", "-s -w", "-o", "pause", "pause.go"]
    run(command, folder=work, environment={"CGO_ENABLED": "0"})
    return work / "pause"


def _proxy_files(root: Path, work: Path) -> dict[str, Path]:
    """The files of kube-proxy's image, with the node's own iptables, so that both use the same kernel tables."""
    files = work / "proxy"
    for folder in ("usr/sbin", "usr/lib/x86_64-linux-gnu", "usr/local/bin", "lib64"):
        (files / folder).mkdir(parents=True)
    tools = ("usr/sbin/xtables-nft-multi", "usr/sbin/conntrack", "usr/sbin/nft")
    for tool in tools:
        shutil.copy(root / tool, files / tool)
    for name in ("iptables", "ip6tables"):
        for suffix in ("", "-save", "-restore"):
            (files / "usr/sbin" / f"{name}{suffix}").symlink_to("xtables-nft-multi")
    plugins = "usr/lib/x86_64-linux-gnu/xtables"
    shutil.copytree(root / plugins, files / plugins)
    for library in _libraries(root, [*tools, *(f"{plugins}/{file.name}" for file in (root / plugins).glob("*.so"))]):
        target = files / library if library.parts[0] != "lib" else files / "usr" / library
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / library, target)
    (files / "lib").symlink_to("usr/lib")
    (files / "sbin").symlink_to("usr/sbin")
    shutil.copy(programs.program("kube-proxy"), files / "usr/local/bin/kube-proxy")  # the path in kubeadm's manifest
    return {"": files}


def _libraries(root: Path, of: list[str]) -> set[Path]:
    answer = subprocess.run(
        ["chroot", root, "ldd", *(f"/{file}" for file in of)], capture_output=True, text=True, check=False
    )
    return {Path(library.lstrip("/")) for library in re.findall(r"/\S+\.so[.\d]*(?= \()", answer.stdout)}


def _import(root: Path, work: Path, archives: list[Path]) -> None:
    """Fill the node's image store with a containerd that runs here and works in the node's folder."""
    store = root / "var/lib/containerd"
    store.mkdir(parents=True, exist_ok=True)
    socket = work / "containerd.sock"
    config = work / "containerd.toml"
    config.write_text(
        f'version = 2\nroot = "{store}"\nstate = "{work / "containerd"}"\n'
        'disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]\n'
        f'[grpc]\n  address = "{socket}"\n'
    )
    with (work / "containerd.log").open("w") as log:
        containerd = subprocess.Popen(["containerd", "--config", config], stdout=log, stderr=log)
    try:
        wait_until(lambda: _ready(socket), "containerd answers", f"see {work / 'containerd.log'}")
        for archive in archives:
            run(["ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", "--no-unpack", archive])
    finally:
        containerd.terminate()
        containerd.wait()


def _ready(socket: Path) -> bool:
    command: list[str | Path] = ["ctr", "--address", socket, "version"]
    return socket.exists() and subprocess.run(command, capture_output=True, check=False).returncode == 0


def _replaced(text: str, old: str, new: str) -> str:
    """``text`` with ``new`` instead of ``old``; fails here, not in a broken node, if kind's files lack it."""
    if old not in text:
        raise SystemExit(f"kind {programs.KIND_VERSION} no longer has {old!r} in its node files")
    return text.replace(old, new)
