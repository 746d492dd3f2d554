"""Container images without a builder: an archive in OCI layout with one layer, from existing files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

MEDIA = "application/vnd.oci.image"
_FOLDERS = ("etc", "tmp", "var", "run")
_TEXTS = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}


def write_image(archive: Path, name: str, files: Mapping[str, Path], entrypoint: Sequence[str], user: str = "") -> None:
    """Write the image ``name`` (repository:tag) to ``archive``.

    ``files`` maps paths in the image to files of this machine; a folder is copied with all below it.
    """
    raw = _layer(files)
    # Level 1: the images are read once, by the node on the same machine.
    layer = gzip.compress(raw, 1, mtime=0)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {
                "User": user,
                "Entrypoint": list(entrypoint),
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
            },
            "rootfs": {"type": "layers", "diff_ids": [digest(raw)]},
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA}.manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar+gzip", layer)],
        }
    ).encode()
    index = json.dumps(
        {
            "schemaVersion": 2,
            "manifests": [
                {
                    **_descriptor("manifest.v1+json", manifest),
                    "platform": {"architecture": "amd64", "os": "linux"},
                    "annotations": {"io.containerd.image.name": name},
                }
            ],
        }
    ).encode()
    blobs = {f"blobs/sha256/{digest(blob)[7:]}": blob for blob in (config, manifest, layer)}
    with tarfile.open(archive, "w") as out:
        for path, content in {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index, **blobs}.items():
            _add_bytes(out, path, content)


def _layer(files: Mapping[str, Path]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as layer:
        for folder in _FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if folder == "tmp" else 0o755
            layer.addfile(entry)
        for path, text in _TEXTS.items():
            _add_bytes(layer, path, text.encode())
        for path, source in files.items():
            if source.is_dir():
                for below in sorted(source.iterdir()):
                    layer.add(below, arcname=f"{path}/{below.name}".strip("/"), filter=_anonymous)
            else:
                layer.add(source.resolve(), arcname=path.strip("/"), filter=_anonymous)
    return raw.getvalue()


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """An entry without owner and time, so that the same files give the same layer."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def _add_bytes(out: tarfile.TarFile, path: str, content: bytes) -> None:
    entry = tarfile.TarInfo(path)
    entry.size = len(content)
    entry.mode = 0o644
    out.addfile(entry, io.BytesIO(content))


def _descriptor(kind: str, blob: bytes) -> dict[str, object]:
    return {"mediaType": f"{MEDIA}.{kind}", "digest": digest(blob), "size": len(blob)}


def digest(blob: bytes) -> str:
    """The name of a blob: sha256 and the digest in hexadecimal."""
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
