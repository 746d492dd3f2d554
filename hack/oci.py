"""Container images as archives in OCI layout, without a builder: from this machine's files, or from ``docker save``."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO

Json = dict[str, object]

_MEDIA = "application/vnd.oci.image"
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
    manifest = _manifest(config, [_descriptor("layer.v1.tar+gzip", layer)])
    with tarfile.open(archive, "w") as out:
        for blob in (config, manifest, layer):
            _add_bytes(out, _blob_path(digest(blob)), blob)
        _add_index(out, [{**_named(manifest, name), "platform": {"architecture": "amd64", "os": "linux"}}])


def write_archive(saved: Path, archive: Path, present: Collection[str]) -> None:
    """Turn the output of ``docker save`` into an archive without the layers that are ``present``, by digest."""
    with tarfile.open(saved) as source, tarfile.open(archive, "w") as target:
        written = set(present)
        manifests: list[Json] = []
        for image in json.loads(_read(source, "manifest.json")):
            config = _read(source, image["Config"])
            layers: list[Json] = []
            for diff_id, path in zip(json.loads(config)["rootfs"]["diff_ids"], image["Layers"], strict=True):
                layer = _member(source, path)
                # Layers are saved uncompressed, so their digest is the one in the image's configuration.
                layers.append({"mediaType": f"{_MEDIA}.layer.v1.tar", "digest": diff_id, "size": layer.size})
                if diff_id not in written:
                    written.add(diff_id)
                    _add(target, _blob_path(diff_id), layer.size, _content_of(source, layer))
            manifest = _manifest(config, layers)
            for blob in (config, manifest):
                _add_bytes(target, _blob_path(digest(blob)), blob)
            manifests += [_named(manifest, name) for name in image["RepoTags"]]
        _add_index(target, manifests)


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


def _manifest(config: bytes, layers: list[Json]) -> bytes:
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{_MEDIA}.manifest.v1+json",
        "config": _descriptor("config.v1+json", config),
        "layers": layers,
    }
    return json.dumps(manifest).encode()


def _named(manifest: bytes, name: str) -> Json:
    return {**_descriptor("manifest.v1+json", manifest), "annotations": {"io.containerd.image.name": name}}


def _descriptor(kind: str, blob: bytes) -> Json:
    return {"mediaType": f"{_MEDIA}.{kind}", "digest": digest(blob), "size": len(blob)}


def digest(blob: bytes) -> str:
    """The name of a blob: sha256 and the digest in hexadecimal."""
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"


def _blob_path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _add_index(out: tarfile.TarFile, manifests: list[Json]) -> None:
    _add_bytes(out, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
    _add_bytes(out, "index.json", json.dumps({"schemaVersion": 2, "manifests": manifests}).encode())


def _add_bytes(out: tarfile.TarFile, path: str, content: bytes) -> None:
    _add(out, path, len(content), io.BytesIO(content))


def _add(out: tarfile.TarFile, path: str, size: int, content: IO[bytes]) -> None:
    entry = tarfile.TarInfo(path)
    entry.size = size
    out.addfile(entry, content)


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
