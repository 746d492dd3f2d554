"""The base of the API's models: names of fields, refusal of unknown fields, validation rules."""

import sys
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError

from messagestore_operator.api.rules import TransitionRule, ValidationRule

BROKEN = object()
"""Replaces an invalid field, while the rules about the others are checked."""


class Model(BaseModel):
    """A part of a resource: snake_case in Python, camelCase in manifests, immutable, unknown fields refused."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True, defer_build=True
    )

    validations: ClassVar[tuple[ValidationRule, ...]] = ()
    transitions: ClassVar[tuple[TransitionRule, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """The model as in a manifest: camelCase, JSON values, without absent fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    def given(self) -> dict[str, Any]:
        """The fields that are given, by their names in manifests."""
        fields = type(self).model_fields
        values = {str(field.alias): getattr(self, name) for name, field in fields.items()}
        return {name: value for name, value in values.items() if value is not None}

    def __setstate__(self, state: dict[Any, Any]) -> None:
        """Take the values of a pickled model, with the names and the set that all models of its kind share."""
        values = {sys.intern(name): value for name, value in state["__dict__"].items()}
        super().__setstate__({**state, "__dict__": values})
        _share_fields_set(self)

    @model_validator(mode="wrap")
    @classmethod
    def _with_rules(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Check the fields and then the rules, and report all problems together."""
        problems: list[InitErrorDetails] = []
        if isinstance(data, dict):
            data = _without_nulls(cls, data)
        try:
            subject: Any = handler(data)
        except ValidationError as error:
            if not isinstance(data, dict):
                raise
            problems = [_as_details(cls, line) for line in error.errors(include_url=False)]
            subject = _partial(cls, data, {line["loc"][0] for line in problems if line["loc"]})
        problems += _broken_rules(cls, subject, data)
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        _share_fields_set(subject)
        return subject  # type: ignore[no-any-return]

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Add the rules to the schema, and remove null from it: the API server drops nulls itself."""
        reference = handler(core)
        schema = handler.resolve_ref_schema(reference)
        for field in schema.get("properties", {}).values():
            _collapse_optional(field)
        if rules := (*cls.validations, *cls.transitions):
            schema["x-kubernetes-validations"] = [rule.to_schema() for rule in rules]
        return reference


class StatusModel(Model):
    """A part of a status. Unknown fields are ignored: a newer operator may have written them."""

    model_config = ConfigDict(extra="ignore")


def _collapse_optional(field: dict[str, Any]) -> None:
    """Turn ``anyOf: [schema, null]``, which a structural schema can't have, into the schema itself."""
    alternatives = field.get("anyOf", [])
    if {"type": "null"} not in alternatives:
        return
    (schema,) = [alternative for alternative in alternatives if alternative != {"type": "null"}]
    del field["anyOf"]
    if field.get("default", ...) is None:
        del field["default"]
    for key, value in schema.items():
        field.setdefault(key, value)


def _without_nulls(cls: type[Model], data: dict[str, Any]) -> dict[str, Any]:
    """Read a null as the API server does: as if the field weren't there."""
    known = _names(cls)
    return {key: value for key, value in data.items() if value is not None or key not in known}


def _share_fields_set(model: Model) -> None:
    """Share one set of given fields among all models with the same one, which is half of a small model's memory."""
    object.__setattr__(model, "__pydantic_fields_set__", _given(frozenset(model.model_fields_set)))


@cache
def _given(fields: frozenset[str]) -> set[str]:
    # The shared set never changes: models are frozen, and a copy of one gets its own.
    return set(fields)


@cache
def _names(cls: type[Model]) -> frozenset[str | None]:
    return frozenset(key for name, field in cls.model_fields.items() for key in (name, field.alias))


def _broken_rules(cls: type[Model], subject: Any, data: Any) -> list[InitErrorDetails]:
    return [_detail("rule", rule.message, (), data) for rule in cls.validations if not _holds(rule, subject)]


def _holds(rule: ValidationRule, subject: Any) -> bool:
    if isinstance(subject, Model):
        return rule.holds(subject)
    # A rule may fail on a subject with invalid fields; those are reported anyway.
    with suppress(AttributeError, TypeError):
        return rule.holds(subject)
    return True


def _partial(cls: type[Model], data: dict[str, Any], broken: set[int | str]) -> SimpleNamespace:
    """The values of a model, with BROKEN in place of invalid fields."""
    values: dict[str, Any] = {}
    for name, field in cls.model_fields.items():
        key = field.alias if field.alias in data else name
        if name in broken or field.alias in broken:
            values[name] = BROKEN if key in data or field.is_required() else field.default
        else:
            values[name] = _adapter(cls, name).validate_python(data[key]) if key in data else field.default
    return SimpleNamespace(**values)


@cache
def _adapter(cls: type[Model], name: str) -> TypeAdapter[Any]:
    field: FieldInfo = cls.model_fields[name]
    annotation: Any = field.annotation
    return TypeAdapter(Annotated[annotation, *field.metadata] if field.metadata else annotation)


def _as_details(cls: type[Model], line: Any) -> InitErrorDetails:
    message = line["msg"]
    if line["type"] == "extra_forbidden" and len(line["loc"]) == 1:
        message = f"unknown field{_did_you_mean(cls, str(line['loc'][0]))}"
    # Our own error type keeps a message that this class or a nested one has improved.
    kind = "unknown_field" if line["type"] == "extra_forbidden" else line["type"]
    return _detail(kind, message, line["loc"], line["input"], line.get("ctx"))


def _did_you_mean(cls: type[Model], name: str) -> str:
    known = {str(field.alias).lower(): str(field.alias) for field in cls.model_fields.values()}
    near = get_close_matches(name.replace("_", "").lower(), known, n=1)
    return f"; did you mean {known[near[0]]}?" if near else ""


def _detail(
    kind: str, message: str, loc: tuple[int | str, ...], value: Any, context: dict[str, Any] | None = None
) -> InitErrorDetails:
    return InitErrorDetails(type=PydanticCustomError(kind, message, context), loc=loc, input=value)
