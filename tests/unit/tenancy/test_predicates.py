"""Which columns a ReplayJob's ``where`` may name."""

from typing import Any

import pytest

from messagestore_operator.tenancy.predicates import predicate_problems


def problems(where: str, **spec: Any) -> list[str]:
    document = {"kind": "ReplayJob", "spec": {"select": {"where": where}, **spec}}
    return [words for _, words in predicate_problems(document)]


@pytest.mark.parametrize("where", ["status = 'FAILED'", "retries > 1", "error IS NULL", "json(result, '$.a') = 'b'"])
def test_a_subscription_selects_by_nothing_that_changes_later(where: str) -> None:
    (refused,) = problems(where, start={"at": "Now"})
    assert "a subscription, which looks at a message once" in refused
    assert problems(where) == []


def test_a_subscription_selects_by_what_stays() -> None:
    assert problems("type = 'Placed' AND json(payload, '$.total') = '7'", start={"at": "Now"}) == []
