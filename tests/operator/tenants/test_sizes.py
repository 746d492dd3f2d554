"""A tenant gets neither an image nor a size that the operator's settings don't allow."""

from typing import Any

import pytest

from support.tenants import Tenants


@pytest.mark.parametrize(
    ("name", "spark", "field", "setting"),
    [
        ("image", {"image": "registry.example.org/theirs:1"}, "spec.spark.image", "tenancy.images"),
        (
            "size",
            {"executor": {"instances": 10000, "cores": 256}},
            "spec.spark.executor.instances",
            "tenancy.sizes.executor.instances",
        ),
    ],
)
def test_it_is_refused_with_the_field_and_the_setting(
    tenants: Tenants, name: str, spark: dict[str, Any], field: str, setting: str
) -> None:
    assert tenants.one.stream(name, spark=spark).accepted
    told = tenants.one.told(name, "NotAllowed", of=tenants.operator)
    assert field in told.words
    assert setting in told.words
    assert not [run for run in tenants.launched(tenants.one) if run.startswith(name)]


def test_a_stream_that_asks_for_less_again_is_served(tenants: Tenants) -> None:
    interval = {"trigger": {"interval": "PT1H"}}
    assert tenants.one.stream("shrinks", spark={"executor": {"instances": 51}}, **interval).accepted
    tenants.one.told("shrinks", "NotAllowed", of=tenants.operator)
    assert tenants.one.change("MessageStream", "shrinks", {"spec": {"spark": {"executor": {"instances": 2}}}}).accepted
    tenants.one.ready("shrinks", of=tenants.operator)
