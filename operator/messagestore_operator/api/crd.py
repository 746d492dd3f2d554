"""CustomResourceDefinitions, generated from the models.

``python -m messagestore_operator.api.crd FOLDER`` writes them; a test fails when the files differ from the models.
"""

import io
import sys
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from ruamel.yaml import YAML

from messagestore_operator.api.columns import COLUMNS
from messagestore_operator.api.kinds import KINDS
from messagestore_operator.api.model import Model
from messagestore_operator.names import GROUP, NAMES, VERSION

CATEGORY = "messagestore"
_DROPPED = ("title", "$defs", "examples")
_MAPS_OF_SCHEMAS = ("properties",)
_COMMENT = "# Generated from the models: change operator/messagestore_operator/api and run `make crds`.\n"


def custom_resource_definition(kind: str) -> dict[str, Any]:
    """The definition of one kind."""
    names = NAMES[kind]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": names.plural,
                "singular": kind.lower(),
                "shortNames": [names.short],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    # Kubernetes before 1.31 drops this, or kubectl refuses it: see docs/install.md.
                    "selectableFields": [{"jsonPath": ".status.phase"}],
                    "additionalPrinterColumns": [column.to_schema() for column in COLUMNS[kind]],
                    "schema": {"openAPIV3Schema": _resource_schema(kind)},
                }
            ],
        },
    }


def _resource_schema(kind: str) -> dict[str, Any]:
    """The schema of a resource, without metadata, apiVersion and kind, which the API server defines."""
    schema = structural_schema(KINDS[kind])
    schema["properties"].update(apiVersion={"type": "string"}, kind={"type": "string"}, metadata={"type": "object"})
    schema["required"] = ["spec"]
    # A resource is not ready until the operator has reconciled it. Without a status, kstatus would count it as ready.
    schema["properties"]["status"]["default"] = {"observedGeneration": 0}
    return schema


class _Generator(GenerateJsonSchema):
    """Writes defaults as in a manifest."""

    def encode_default(self, dft: Any) -> Any:
        """Write a default object in full: the API server checks its rules before it fills in anything."""
        return dft.to_dict() if isinstance(dft, Model) else super().encode_default(dft)


def structural_schema(model: type[Model]) -> dict[str, Any]:
    """The structural schema of a model."""
    schema = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    structural: dict[str, Any] = _structural(schema, schema.get("$defs", {}))
    return structural


def _structural(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    schema = _inlined(schema, definitions)
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DROPPED or (key == "additionalProperties" and isinstance(value, bool)):
            continue
        if key in _MAPS_OF_SCHEMAS:
            result[key] = {name: _structural(item, definitions) for name, item in value.items()}
        elif key in ("items", "additionalProperties"):
            result[key] = _structural(value, definitions)
        elif key == "const":
            result["enum"] = [value]
        else:
            result[key] = value
    if result.get("type") == "integer":
        result["format"] = "int64"
    return result


def _inlined(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Replace a reference by its definition; fields beside the reference override it."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    beside = {key: value for key, value in schema.items() if key != "$ref"}
    definition = _inlined(definitions[reference.removeprefix("#/$defs/")], definitions)
    return {**definition, **beside}


def to_yaml(definition: dict[str, Any]) -> str:
    """A definition as a YAML document, the same text every time."""
    yaml = YAML()
    yaml.width = 4096
    yaml.indent(mapping=2, sequence=4, offset=2)
    # Without anchors and aliases.
    yaml.representer.ignore_aliases = lambda data: True
    stream = io.StringIO()
    yaml.dump(definition, stream)
    return _COMMENT + stream.getvalue()


def files() -> dict[str, str]:
    """The name and the text of each generated file."""
    return {f"{NAMES[kind].plural}.yaml": to_yaml(custom_resource_definition(kind)) for kind in KINDS}


def write(folder: Path) -> None:
    """Write the generated files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
