"""Values of plain YAML scalars: by YAML 1.2, and as kubectl and Helm read them.

Both use sigs.k8s.io/yaml, which follows YAML 1.1 in part: ``on`` is true there, and ``0100`` is 64. A manifest must
mean the same in a local run and in a cluster, so a scalar that they read otherwise is refused.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

_TAG = "tag:yaml.org,2002:"
_BOOLEANS = {
    word: value
    for value, words in ((True, ("y", "yes", "on", "true")), (False, ("n", "no", "off", "false")))
    for plain in words
    for word in (plain, plain.capitalize(), plain.upper())
}
_NULLS = ("", "~", "null", "Null", "NULL")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<x>[0-9a-fA-F]+)|0[bB](?P<b>[01]+)|0[oO]?(?P<o>[0-7]+)|(?P<d>[0-9]+))"
    r"|0b(?P<signed>[-+][01]+)"
)
_BASES = {"x": 16, "b": 2, "o": 8, "d": 10, "signed": 2}
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


def value_of(tag: str, text: str) -> Any:
    """The value of a scalar by its resolved tag. Timestamps stay text, as in Kubernetes.

    Raises:
        ValueError: JSON has no such value.
    """
    match tag.removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return _integer(text)
        case "float":
            return _number(text)
    return text


def other_reading(text: str, own: Any) -> str | None:
    """What kubectl reads in a plain scalar, as JSON; None if it is ``own``, the value by YAML 1.2."""
    theirs = _of_kubectl(text)
    same = own == theirs and isinstance(own, bool) == isinstance(theirs, bool)
    return None if same else json.dumps(theirs)


def other_key(text: str) -> str | None:
    """The key that kubectl makes of a plain scalar, as JSON; None if it is the text."""
    theirs = _of_kubectl(text)
    key = theirs if isinstance(theirs, str) else json.dumps(theirs)
    return None if key == text and theirs is not None else json.dumps(key)


def _of_kubectl(text: str) -> Any:
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text in _NULLS:
        return None
    plain = text.replace("_", "") if text[0] in "+-0123456789" else text
    integer = _INTEGER.fullmatch(plain)
    if integer:
        kind = next(name for name in _BASES if integer[name])
        number = int(f"{integer['sign'] or ''}{integer[kind]}", _BASES[kind])
        if -(1 << 63) <= number < 1 << 63:
            return number
    if _FLOAT.fullmatch(plain) and math.isfinite(float(plain)):
        return float(plain)
    return text


def _integer(text: str) -> int:
    plain = text.replace("_", "")
    return int(plain, 0) if re.match(r"[-+]?0[xob]", plain) else int(plain)


def _number(text: str) -> float:
    number = float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    if not math.isfinite(number):
        raise ValueError(text)
    return number
