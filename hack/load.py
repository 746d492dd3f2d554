"""Load images from the Docker daemon into the node, without the layers that the node has already.

A change of the jobs' code is a layer of some hundred kilobytes on top of one of a gigabyte: only the first is sent.
"""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO

from hack.docker import Docker, state_folder
from hack.machine import step
from hack.oci import MEDIA, digest

Json = dict[str, object]


def load(docker: Docker, node: str, images: Sequence[str]) -> None:
    """Load the daemon's ``images`` into the node's container runtime, with the same names."""
    record = state_folder() / "loaded.json"
    loaded = _loaded(record, docker.identity(node))
    missing = [image for image in images if loaded.get(image) != docker.identity(image)]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as folder, step(f"images into the node: {' '.join(missing)}"):
        saved, archive = Path(folder) / "saved.tar", Path(folder) / "missing.tar"
        docker.run("save", "--output", saved, *missing)
        write_archive(saved, archive, present=_content(docker, node))
        receive = ("exec", "--interactive", node, "ctr", "--namespace", "k8s.io", "images", "import", "-")
        docker.pipe(["cat", archive], *receive)
    loaded.update({image: docker.identity(image) for image in missing})
    record.write_text(json.dumps({"node": docker.identity(node), "images": loaded}))


def _loaded(record: Path, node: str) -> dict[str, str]:
    """The image that was loaded into this node under each name, from the record."""
    try:
        known = json.loads(record.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    images: dict[str, str] = known["images"] if known["node"] == node else {}
    return images


def _content(docker: Docker, node: str) -> Collection[str]:
    """The digests of the node's content store."""
    return set(docker.run("exec", node, "ctr", "--namespace", "k8s.io", "content", "ls", "--quiet").split())


def write_archive(saved: Path, archive: Path, present: Collection[str]) -> None:
    """Turn the output of ``docker save`` into an archive in OCI layout, without the layers already ``present``."""
    with tarfile.open(saved) as source, tarfile.open(archive, "w") as target:
        written = set(present)
        manifests: list[Json] = []
        for image in json.loads(_read(source, "manifest.json")):
            config = _read(source, image["Config"])
            layers: list[Json] = []
            for diff_id, path in zip(json.loads(config)["rootfs"]["diff_ids"], image["Layers"], strict=True):
                layer = _member(source, path)
                # Layers are saved uncompressed, so their digest is the one in the image's configuration.
                layers.append({"mediaType": f"{MEDIA}.layer.v1.tar", "digest": diff_id, "size": layer.size})
                if diff_id not in written:
                    written.add(diff_id)
                    _add(target, diff_id, layer.size, _content_of(source, layer))
            manifest = _manifest(config, layers)
            for blob in (config, manifest):
                _add(target, digest(blob), len(blob), io.BytesIO(blob))
            manifests += [_named(manifest, name) for name in image["RepoTags"]]
        index = json.dumps({"schemaVersion": 2, "manifests": manifests}).encode()
        for name, content in {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))


def _manifest(config: bytes, layers: list[Json]) -> bytes:
    descriptor = {"mediaType": f"{MEDIA}.config.v1+json", "digest": digest(config), "size": len(config)}
    kind = f"{MEDIA}.manifest.v1+json"
    return json.dumps({"schemaVersion": 2, "mediaType": kind, "config": descriptor, "layers": layers}).encode()


def _named(manifest: bytes, name: str) -> Json:
    return {
        "mediaType": f"{MEDIA}.manifest.v1+json",
        "digest": digest(manifest),
        "size": len(manifest),
        "annotations": {"io.containerd.image.name": name},
    }


def _member(source: tarfile.TarFile, path: str) -> tarfile.TarInfo:
    """A file of the archive; links are followed, as a layer that two images share is saved once."""
    member = source.getmember(path)
    while member.issym():
        member = source.getmember(str(_joined(Path(member.name).parent, member.linkname)))
    return member


def _joined(folder: Path, link: str) -> Path:
    parts: list[str] = list(folder.parts)
    for part in Path(link).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return Path(*parts)


def _read(source: tarfile.TarFile, path: str) -> bytes:
    return _content_of(source, _member(source, path)).read()


def _content_of(source: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = source.extractfile(member)
    if content is None:
        raise SystemExit(f"docker save wrote no file {member.name}")
    return content


def _add(target: tarfile.TarFile, name: str, size: int, content: IO[bytes]) -> None:
    entry = tarfile.TarInfo(f"blobs/{name.replace(':', '/')}")
    entry.size = size
    target.addfile(entry, content)
