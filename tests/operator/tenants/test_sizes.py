"""A tenant gets no image, size, setting, label or account that the operator's settings don't allow."""

from typing import Any

import pytest

from support import sparkoperator
from support.tenants import Tenants


@pytest.fixture(scope="module")
def values() -> tuple[str, ...]:
    """The operator's own value of a setting that resources may set."""
    return (r"spark.conf.spark\.network\.timeout=600s",)


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
        (
            "dynamic",
            {"conf": {"spark.dynamicAllocation.enabled": "true"}},
            "spark.dynamicAllocation.maxExecutors",
            "tenancy.sizes.executor.instances",
        ),
        ("driver", {"driver": {"memory": "33g"}}, "spec.spark.driver.memory", "tenancy.sizes.driver.memory"),
    ],
)
def test_a_size_beyond_the_limit_is_refused_with_the_field_and_the_setting(
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


def test_a_tenant_cannot_change_what_the_operator_sets_for_a_run(tenants: Tenants) -> None:
    name, server = "obedient", tenants.one.server
    wishes = {
        "conf": {"spark.network.timeout": "1s", "spark.locality.wait": "1s"},
        # No kind has such fields, and the API server drops them.
        "serviceAccount": "admin",
        "driver": {"cores": 1, "serviceAccount": "admin", "hostNetwork": True},
    }
    labels = {"spark-role": "driver", "messagestore.dev/run": "another", "team": "shop"}
    spec = {"spark": wishes, "trigger": {"interval": "PT1H"}}
    assert tenants.one.make("MessageStream", name, spec, labels=labels).accepted
    tenants.one.ready(name, of=tenants.operator)
    (run,) = [run for run in tenants.launched(tenants.one) if run.startswith(name)]

    made = server.request("GET", sparkoperator.path(tenants.one.namespace, run)).body
    conf, driver = made["spec"]["sparkConf"], made["spec"]["driver"]
    assert (conf["spark.network.timeout"], conf["spark.locality.wait"]) == ("600s", "1s")
    assert (driver["serviceAccount"], "hostNetwork" in driver) == ("message-store-driver", False)
    for labelled in (made, driver["template"], made["spec"]["executor"]["template"]):
        found = labelled["metadata"]["labels"]
        assert (found["messagestore.dev/run"], found.keys() & {"spark-role", "team"}) == (run, set())
