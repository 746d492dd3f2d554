"""Cases of which `make test` tries a sample that is always the same, and `make test-all` every one."""

from collections.abc import Iterable
from typing import Any

import pytest


def few(cases: Iterable[Any], *chosen: Any) -> list[Any]:
    """Parameters of a test: all cases, of which `make test` tries only the chosen ones."""
    every = list(cases)
    assert set(chosen) <= set(every), "a chosen case is none of the cases"
    return [case if case in chosen else _long(case) for case in every]


def _long(case: Any) -> Any:
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.long)
