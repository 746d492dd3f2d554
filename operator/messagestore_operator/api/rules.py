"""Validation rules over several fields, each in two forms.

A rule has a CEL expression for the Kubernetes API server and a Python function for the models, side by side so that
they change together. A test on a real API server shows that they agree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ValidationRule:
    """A condition on a value, in CEL and in Python, and the message if it doesn't hold."""

    message: str
    cel: str
    holds: Callable[[Any], bool]

    def to_schema(self) -> dict[str, str]:
        """The rule as an item of x-kubernetes-validations."""
        return {"rule": self.cel, "message": self.message}


@dataclass(frozen=True)
class TransitionRule:
    """A condition on the old and new value of an update; only the API server sees both."""

    message: str
    cel: str

    def to_schema(self) -> dict[str, str]:
        """The rule as an item of x-kubernetes-validations."""
        return {"rule": self.cel, "message": self.message}


def exactly_one(*fields: str) -> ValidationRule:
    """One of the fields must be given, and only one. Their names are the same in Python and in manifests."""
    return ValidationRule(
        message=f"give exactly one of {_listed(fields)}",
        cel=f"[{_presence(fields)}].filter(given, given).size() == 1",
        holds=lambda value: _count_given(value, fields) == 1,
    )


def at_least_one(**fields: str) -> ValidationRule:
    """One of the fields must be given, or more; Python's name = the manifest's name."""
    return ValidationRule(
        message=f"give at least one of {_listed(fields.values())}",
        cel=f"[{_presence(fields.values())}].exists(given, given)",
        holds=lambda value: _count_given(value, fields) >= 1,
    )


def at_most_one(**fields: str) -> ValidationRule:
    """No two of the fields may be given; Python's name = the manifest's name."""
    return ValidationRule(
        message=f"give only one of {_listed(fields.values())}",
        cel=f"[{_presence(fields.values())}].filter(given, given).size() <= 1",
        holds=lambda value: _count_given(value, fields) <= 1,
    )


def immutable(field: str, *, optional: bool) -> TransitionRule:
    """The field keeps the value it was created with."""
    same = f"self.{field} == oldSelf.{field}"
    if optional:
        same = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || {same})"
    return TransitionRule(message=f"{field} can't be changed: make a new resource instead", cel=same)


def _presence(fields: Any) -> str:
    return ", ".join(f"has(self.{field})" for field in fields)


def _count_given(value: Any, fields: Any) -> int:
    return sum(getattr(value, field) is not None for field in fields)


def _listed(fields: Any) -> str:
    *others, last = fields
    return f"{', '.join(others)} and {last}"
