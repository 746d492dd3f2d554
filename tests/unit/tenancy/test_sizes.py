"""Images and sizes: the operator's own image, and sizes up to a limit; a refusal names the field and the setting."""

from typing import Any

import pytest
from pydantic import ValidationError

from messagestore_operator.api import MessageStream
from messagestore_operator.service import defaults
from messagestore_operator.settings import Settings, SettingsProblemError, SparkSettings, load
from messagestore_operator.tenancy.check import not_allowed
from messagestore_operator.tenancy.settings import Tenancy
from support.launches import stream


def asking(**spark: Any) -> MessageStream:
    return stream(spark=spark)


def said(spark: dict[str, Any], **tenancy: Any) -> list[str]:
    return [str(one) for one in not_allowed(asking(**spark), Tenancy.model_validate(tenancy))]


@pytest.mark.parametrize(
    ("spark", "words"),
    [
        (
            {"executor": {"instances": 10000}},
            "spec.spark.executor.instances: 10000 is more than 50, which the operator's settings allow "
            "(tenancy.sizes.executor.instances)",
        ),
        ({"executor": {"cores": 256}}, "spec.spark.executor.cores: 256 is more than 8"),
        ({"executor": {"memory": "1t"}}, "spec.spark.executor.memory: 1t is more than 32g"),
        ({"driver": {"cores": 9}}, "spec.spark.driver.cores: 9 is more than 8"),
        ({"driver": {"memory": "32769m"}}, "spec.spark.driver.memory: 32769m is more than 32g"),
        (
            {"conf": {"spark.executor.memoryOverhead": "999999"}},
            "spec.spark.conf.spark.executor.memoryOverhead: 999999 is more than 32g",
        ),
        ({"conf": {"spark.driver.memoryOverhead": "33g"}}, "spec.spark.conf.spark.driver.memoryOverhead: 33g is"),
        ({"conf": {"spark.driver.memoryOverheadFactor": "9"}}, "spec.spark.conf.spark.driver.memoryOverheadFactor: 9"),
        (
            {"conf": {"spark.dynamicAllocation.maxExecutors": "51"}},
            "spec.spark.conf.spark.dynamicAllocation.maxExecutors: 51 is more than 50",
        ),
        ({"conf": {"spark.dynamicAllocation.minExecutors": "51"}}, "minExecutors: 51 is more than 50"),
        ({"conf": {"spark.dynamicAllocation.initialExecutors": "51"}}, "initialExecutors: 51 is more than 50"),
        (
            {"conf": {"spark.dynamicAllocation.enabled": "true"}},
            "needs spark.dynamicAllocation.maxExecutors, at most 50",
        ),
    ],
)
def test_what_is_larger_than_the_settings_allow_is_told(spark: dict[str, Any], words: str) -> None:
    (found,) = said(spark)
    assert words in found


def test_what_is_as_large_as_the_settings_allow_is_allowed() -> None:
    conf = {
        "spark.executor.memoryOverhead": "32768",
        "spark.driver.memoryOverheadFactor": "1",
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.maxExecutors": "50",
    }
    largest = {"driver": {"cores": 8, "memory": "32g"}, "executor": {"cores": 8, "memory": "32G", "instances": 50}}
    assert said({**largest, "conf": conf}) == []


def test_bounds_can_be_set_one_by_one() -> None:
    tenancy = {"sizes": {"executor": {"instances": 2}}}
    (found,) = said({"executor": {"instances": 3, "cores": 8}}, **tenancy)
    assert found.startswith("spec.spark.executor.instances: 3 is more than 2")


def test_the_operators_own_sizes_must_keep_within_the_bounds() -> None:
    options = {"spark": {"driver": {"memory": "64g"}}}
    with pytest.raises(SettingsProblemError, match=r"^spark\.driver\.memory: 64g is more than 32g"):
        load(None, {}, options)


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("registry.example.org/team/spark:1", "registry.example.org/team/spark:1"),
        ("registry.example.org/team/spark:1", "registry.example.org/team/*"),
        ("registry.example.org/team/deep/spark:1", "registry.example.org/team/*"),
        ("registry.example.org/team/spark:1", "registry.example.org/team/spark:*"),
        ("registry.example.org/team/spark@sha256:ab", "registry.example.org/team/spark@*"),
    ],
)
def test_an_image_that_is_listed_or_begins_so_is_allowed(image: str, allowed: str) -> None:
    assert said({"image": image}, images=[allowed]) == []


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("registry.example.org/team/spark:2", "registry.example.org/team/spark:1"),
        ("registry.example.org/team2/spark:1", "registry.example.org/team/*"),
        ("registry.example.org/team/spark2:1", "registry.example.org/team/spark:*"),
        ("registry.example.org.evil.net/team/spark:1", "registry.example.org/*"),
        # A port, not a tag.
        ("spark:5000/theirs", "spark:*"),
    ],
)
def test_any_other_image_is_refused(image: str, allowed: str) -> None:
    (found,) = said({"image": image}, images=[allowed])
    assert found == (
        f"spec.spark.image: {image} is none of the images that the operator's settings allow (tenancy.images)"
    )


@pytest.mark.parametrize("entry", ["*", "registry.example.org*", "reg*/x", "a b", ""])
def test_a_list_of_images_that_means_any_registry_is_no_setting(entry: str) -> None:
    with pytest.raises(ValidationError):
        Tenancy.model_validate({"images": [entry]})


def test_the_operators_own_image_is_allowed_by_default_and_no_other() -> None:
    settings = Settings(spark=SparkSettings(image="registry.example.org/store/spark:0.1.0"))
    tenancy = defaults(settings).tenancy
    own, other = asking(image=settings.spark.image), asking(image="docker.io/evil/spark:1")
    assert (not_allowed(own, tenancy), len(not_allowed(other, tenancy))) == ((), 1)
    assert not_allowed(asking(image=""), tenancy) == ()


def test_the_spark_settings_of_tenants_can_be_held_to_a_list() -> None:
    spark = {"conf": {"spark.speculation": "true", "spark.locality.wait": "3s"}}
    assert said(spark) == []
    words = "spec.spark.conf.spark.locality.wait: is none of the Spark settings that the operator's settings allow"
    assert said(spark, conf=["spark.speculation"]) == [f"{words} (tenancy.conf)"]
    with pytest.raises(ValidationError, match="no resource may give this Spark setting"):
        Tenancy.model_validate({"conf": ["spark.jars"]})
