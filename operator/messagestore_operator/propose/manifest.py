"""The manifest of a stream that reads a folder, with the reasons of each choice in comments."""

import re
from collections.abc import Mapping
from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.objects import is_local, local_path
from messagestore_operator.manifests.yaml_tree import other_reading
from messagestore_operator.names import API_VERSION
from messagestore_operator.propose.mapping import Mapped
from messagestore_operator.propose.paths import step
from messagestore_operator.propose.shapes import Shape

_SECRET = "lake-access"
_SECRET_IS_MADE = f"""\
In a cluster the keys come from a Secret:
  kubectl create secret generic {_SECRET} --from-file=accessKey --from-file=secretKey
  kubectl label secret {_SECRET} messagestore.dev/use=storage"""
_LANDINGS = frozenset({"landing", "incoming", "inbox", "input", "in", "raw", "data"})
_LONGEST_NAME = 50


def manifest(uri: str, name: str, shape: Shape, mapped: Mapped, storage: StorageEntry | None, head: str) -> str:
    """The manifest as YAML.

    Args:
        uri: the folder that files arrive in.
        name: of the stream.
        storage: how the folder's bucket is reached; None for a local folder.
        head: a comment before it.
    """
    spec = CommentedMap(table=CommentedMap(uri=table_uri(uri, name)))
    spec["table"].yaml_add_eol_comment("the store: a folder of its own, outside of the source", "uri")
    if storage is not None:
        spec["storage"] = _storage(storage)
        spec.yaml_set_comment_before_after_key("storage", _SECRET_IS_MADE, indent=2)
    spec["source"] = CommentedMap(files=_files(uri, shape))
    spec["trigger"] = CommentedMap(interval="PT5M")
    if mapped.format != "Native" or mapped.unwrap:
        spec["envelope"] = _envelope(mapped)
    about = CommentedMap(name=_text(name))
    document = CommentedMap(apiVersion=API_VERSION, kind="MessageStream", metadata=about, spec=spec)
    document.yaml_set_start_comment(head)
    text = StringIO()
    writer = YAML()
    writer.width = 10_000
    writer.indent(mapping=2, sequence=4, offset=2)
    writer.dump(document, text)
    return text.getvalue().rstrip() + "\n"


def stream_name(uri: str) -> str:
    """A name for the stream of a folder: its last part that says what it has."""
    parts = [part for part in re.split("[/:]+", uri) if part and "=" not in part]
    said = [part for part in parts[1:] if part.lower() not in _LANDINGS] or parts[-1:]
    name = re.sub("[^a-z0-9]+", "-", said[-1].lower())[:_LONGEST_NAME].strip("-")
    return name if name[:1].isalpha() else f"stream-{name}".rstrip("-")


def category(name: str) -> str:
    """The category of a stream's messages: its name, as a category has no hyphens."""
    return name.replace("-", "_")


def table_uri(uri: str, name: str) -> str:
    """A folder for the store, beside the source's."""
    if is_local(uri):
        parent = local_path(uri).rstrip("/").rpartition("/")[0]
        return f"file://{parent}/{name}-store"
    bucket, _, path = uri.partition("://")[2].rstrip("/").partition("/")
    if not path:
        return f"s3a://{bucket}-store/{name}"
    return "/".join(part for part in (f"s3a://{bucket}", path.rpartition("/")[0], f"{name}-store") if part)


def source_uri(uri: str) -> str:
    """The folder as manifests have it."""
    return f"file://{local_path(uri)}" if is_local(uri) else re.sub("^s3://", "s3a://", uri)


def _storage(storage: StorageEntry) -> CommentedMap:
    block = CommentedMap()
    if storage.endpoint is not None:
        block["endpoint"] = storage.endpoint
        block["pathStyleAccess"] = storage.path_style_access
    block["region"] = storage.region
    block["credentialsSecretRef"] = _flow({"name": _SECRET})
    return block


def _files(uri: str, shape: Shape) -> CommentedMap:
    files = CommentedMap(uri=source_uri(uri), format=shape.format)
    files.yaml_add_eol_comment(shape.reason, "format")
    if shape.arrays:
        files["recordsPaths"] = CommentedSeq([step("$", name) for name in shape.arrays])
        files["recordsPaths"].fa.set_flow_style()
    return files


def _envelope(mapped: Mapped) -> CommentedMap:
    envelope = CommentedMap(format=mapped.format)
    envelope.yaml_add_eol_comment(mapped.reason, "format")
    if mapped.unwrap:
        envelope["unwrap"] = CommentedSeq(_flow(step._asdict()) for step in mapped.unwrap)
        envelope.yaml_add_eol_comment("strings that hold JSON objects: these are the records", "unwrap")
    if mapped.choices:
        fields = CommentedMap({choice.field: _flow(choice.source) for choice in mapped.choices})
        for choice in mapped.choices:
            fields.yaml_add_eol_comment(choice.reason, choice.field)
        envelope["fields"] = fields
    return envelope


def _flow(values: Mapping[str, Any]) -> CommentedMap:
    block = CommentedMap({name: _text(value) for name, value in values.items()})
    block.fa.set_flow_style()
    return block


def _text(value: Any) -> Any:
    """A value, in quotes if it is a text that kubectl would take for something else, such as the folder's name on."""
    unclear = isinstance(value, str) and other_reading(value, value) is not None
    return DoubleQuotedScalarString(value) if unclear else value
