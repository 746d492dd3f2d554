"""Validation rules over several fields, each in two forms.

A rule has a CEL expression for the Kubernetes API server and a Python function for the models, side by side so that
they change together. A test on a real API server shows that they agree. Here are their forms, and the rules of what
several kinds have; each kind has its own in ``stream_rules``, ``policy_rules`` and ``replay_rules``.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.alias_generators import to_snake

from messagestore_operator.api.spark_conf import ALLOWED_CONF, FORMS, Form

MAX_RESOURCE_NAME = 63


@dataclass(frozen=True)
class TransitionRule:
    """A condition on the old and new value of an update; only the API server sees both."""

    message: str
    cel: str

    def to_schema(self) -> dict[str, str]:
        """The rule as an item of x-kubernetes-validations."""
        return {"rule": self.cel, "message": self.message}


@dataclass(frozen=True)
class ValidationRule(TransitionRule):
    """A condition on a value, in CEL and in Python, and the message if it doesn't hold."""

    holds: Callable[[Any], bool]


def exactly_one(*fields: str) -> ValidationRule:
    """One of the fields, by their names in manifests, must be given, and only one."""
    return _number("give exactly one of", fields, "filter(given, given).size() == 1", lambda number: number == 1)


def at_least_one(*fields: str) -> ValidationRule:
    """One of the fields must be given, or more."""
    return _number("give at least one of", fields, "exists(given, given)", lambda number: number >= 1)


def at_most_one(*fields: str) -> ValidationRule:
    """No two of the fields may be given."""
    return _number("give only one of", fields, "filter(given, given).size() <= 1", lambda number: number <= 1)


def _number(words: str, fields: Sequence[str], cel: str, holds: Callable[[int], bool]) -> ValidationRule:
    *others, last = fields
    names = [to_snake(field) for field in fields]
    return ValidationRule(
        message=f"{words} {', '.join(others)} and {last}",
        cel=f"[{', '.join(f'has(self.{field})' for field in fields)}].{cel}",
        holds=lambda value: holds(count_given(value, names)),
    )


def immutable(field: str, *, optional: bool) -> TransitionRule:
    """The field keeps the value it was created with."""
    return TransitionRule(f"{field} can't be changed: make a new resource instead", _same(field, optional=optional))


def immutable_without(marker: str, field: str, *, optional: bool) -> TransitionRule:
    """The field keeps its value in a resource without another field, which is immutable itself."""
    cel = f"has(self.{marker}) || ({_same(field, optional=optional)})"
    return TransitionRule(f"{field} can't be changed without {marker}: make a new resource instead", cel)


def _same(field: str, *, optional: bool) -> str:
    same = f"self.{field} == oldSelf.{field}"
    if optional:
        same = f"has(self.{field}) == has(oldSelf.{field}) && (!has(self.{field}) || {same})"
    return same


def count_given(value: Any, fields: Iterable[str]) -> int:
    """How many of the fields, by their names in Python, are given."""
    return sum(getattr(value, field) is not None for field in fields)


NAME_OF_RESOURCE = ValidationRule(
    message=f"metadata.name must have at most {MAX_RESOURCE_NAME} characters: it becomes a label of each run",
    cel=f"self.metadata.name.size() <= {MAX_RESOURCE_NAME}",
    holds=lambda resource: len(resource.metadata.name) <= MAX_RESOURCE_NAME,
)
LONGER_THAN_ZERO = ValidationRule(
    message="must be longer than zero",
    cel="self.matches('[1-9]')",
    holds=lambda text: re.search("[1-9]", text) is not None,
)
NO_DOTS = ValidationRule(
    message="must not hold . or .. as a part of its path",
    cel="!('/' + self + '/').contains('/../') && !('/' + self + '/').contains('/./')",
    holds=lambda uri: not {".", ".."} & set(uri.split("/")),
)
NO_ESCAPES = ValidationRule(
    # delta-rs decodes local paths: of a folder a%20b it would read and write "a b".
    message="must not hold % and two hexadecimal digits in a local path: rename the folder",
    cel="!(self.startsWith('file:') && self.matches('%[0-9A-Fa-f]{2}'))",
    holds=lambda uri: not (uri.startswith("file:") and re.search("%[0-9A-Fa-f]{2}", uri)),
)

KAFKA_SECURITY = (
    ValidationRule(
        message="a SASL protocol needs mechanism and credentialsSecretRef; other protocols have neither",
        cel=(
            "self.protocol.startsWith('SASL_') ? has(self.mechanism) && has(self.credentialsSecretRef)"
            " : !has(self.mechanism) && !has(self.credentialsSecretRef)"
        ),
        holds=lambda it: (
            (it.mechanism is not None, it.credentials_secret_ref is not None) == (it.protocol.startswith("SASL_"),) * 2
        ),
    ),
    ValidationRule(
        message="mechanism OAUTHBEARER needs oauth, and no other mechanism has it: give both, or neither",
        cel="(has(self.mechanism) && self.mechanism == 'OAUTHBEARER') == has(self.oauth)",
        holds=lambda it: (it.mechanism == "OAUTHBEARER") == (it.oauth is not None),
    ),
    ValidationRule(
        message="username goes with mechanism PLAIN or SCRAM: leave it out; a client of OAUTHBEARER has its Secret's "
        "clientId",
        cel="!has(self.username) || (has(self.mechanism) && self.mechanism != 'OAUTHBEARER')",
        holds=lambda it: it.username is None or it.mechanism not in (None, "OAUTHBEARER"),
    ),
    ValidationRule(
        message="clientCertificateSecretRef goes with protocol SSL or SASL_SSL: without TLS nobody sees a certificate",
        cel="!has(self.clientCertificateSecretRef) || self.protocol.endsWith('SSL')",
        holds=lambda it: it.client_certificate_secret_ref is None or it.protocol.endswith("SSL"),
    ),
)
MATCH = ValidationRule(
    message="give at least one condition: an empty match would be everything",
    cel=(
        "[self.streamNames, self.categories, self.types, self.statuses, self.correlationIds,"
        " self.sequenceIds, self.messageIds].exists(list, list.size() > 0)"
        " || self.headers.size() > 0 || self.where != ''"
    ),
    holds=lambda match: any(vars(match).values()),
)


def _form_of_conf(form: Form) -> ValidationRule:
    pattern = form.pattern.replace("\\", "\\\\")
    return ValidationRule(
        message=f"conf: {', '.join(form.names)}: the value must be {form.words}",
        cel=(
            f"!has(self.conf) || self.conf.all(name, !(name in [{_quoted(form.names)}])"
            f" || self.conf[name].matches('^({pattern})$'))"
        ),
        holds=lambda spark: all(form.fits(spark.conf[name]) for name in form.names if name in spark.conf),
    )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(map(repr, sorted(names)))


SPARK_CONF = (
    ValidationRule(
        message="conf holds a setting that is not allowed: its description lists those that are",
        cel=f"!has(self.conf) || self.conf.all(name, name in [{_quoted(ALLOWED_CONF)}])",
        holds=lambda spark: set(spark.conf) <= set(ALLOWED_CONF),
    ),
    *map(_form_of_conf, FORMS),
)
