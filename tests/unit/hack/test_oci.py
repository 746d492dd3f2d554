"""Images on their way into a node: only the layers that it lacks are sent."""

import hashlib
import io
import json
import tarfile
from pathlib import Path

from hack.oci import write_archive

BASE, OLD_CODE, NEW_CODE = b"the large base", b"code as it was", b"code as it is"


def test_a_layer_that_the_node_has_is_named_and_not_sent(tmp_path: Path) -> None:
    saved = _saved(tmp_path, {"jobs:1": [BASE, NEW_CODE]})

    archive = _archive(tmp_path, saved, present={_digest(BASE), _digest(OLD_CODE)})

    assert _layers(archive, "jobs:1") == [_digest(BASE), _digest(NEW_CODE)]
    assert archive.keys() & {_digest(BASE), _digest(NEW_CODE)} == {_digest(NEW_CODE)}


def test_a_layer_of_two_images_is_sent_once(tmp_path: Path) -> None:
    saved = _saved(tmp_path, {"jobs:1": [BASE, NEW_CODE], "operator:1": [BASE]})

    archive = _archive(tmp_path, saved, present=set())

    assert _layers(archive, "operator:1") == [_digest(BASE)]
    assert archive[_digest(BASE)] == BASE


def test_the_same_image_gets_the_same_name_in_the_node_each_time(tmp_path: Path) -> None:
    saved = _saved(tmp_path, {"jobs:1": [BASE, NEW_CODE]})

    whole, part = (_archive(tmp_path, saved, present) for present in (set(), {_digest(BASE)}))

    assert whole["index.json"] == part["index.json"]


def _saved(folder: Path, images: dict[str, list[bytes]]) -> Path:
    """The output of `docker save`: a layer that is already there is a link to the first."""
    path, places, manifest = folder / "saved.tar", dict[bytes, str](), []
    with tarfile.open(path, "w") as out:
        for name, layers in images.items():
            config = json.dumps({"rootfs": {"diff_ids": [_digest(layer) for layer in layers]}}).encode()
            paths = []
            for number, layer in enumerate(layers):
                place = f"{name.replace(':', '-')}-{number}/layer.tar"
                if layer in places:
                    link = tarfile.TarInfo(place)
                    link.type, link.linkname = tarfile.SYMTYPE, f"../{places[layer]}"
                    out.addfile(link)
                else:
                    places[layer] = place
                    _add(out, place, layer)
                paths.append(place)
            _add(out, f"{name}.json", config)
            manifest.append({"Config": f"{name}.json", "RepoTags": [name], "Layers": paths})
        _add(out, "manifest.json", json.dumps(manifest).encode())
    return path


def _archive(folder: Path, saved: Path, present: set[str]) -> dict[str, bytes]:
    """The archive for a node: the content of each blob by its digest, and the index."""
    write_archive(saved, folder / "archive.tar", present)
    with tarfile.open(folder / "archive.tar") as archive:
        files = {member.name: archive.extractfile(member) for member in archive}
        return {_blob(name): file.read() for name, file in files.items() if file}


def _blob(name: str) -> str:
    return name.removeprefix("blobs/").replace("/", ":")


def _layers(archive: dict[str, bytes], name: str) -> list[str]:
    entries = json.loads(archive["index.json"])["manifests"]
    (entry,) = [entry for entry in entries if entry["annotations"]["io.containerd.image.name"] == name]
    return [layer["digest"] for layer in json.loads(archive[entry["digest"]])["layers"]]


def _add(out: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    out.addfile(entry, io.BytesIO(content))


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
