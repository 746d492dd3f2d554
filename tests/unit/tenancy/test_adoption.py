"""A table goes from one namespace to another only with the consent of both, or of the operator's administrator."""

from typing import Any

import pytest
from pydantic import ValidationError

from messagestore_core.contract.stores import FormerOwner, Owner
from messagestore_operator.api import MessageStream
from messagestore_operator.tenancy.adoption import Adoption, former_owners, is_released
from support.launches import stream

TABLE = "s3a://lake/orders"
ASKS = {"messagestore.dev/adopt-table": TABLE}
OWN = FormerOwner(namespace="shop")


def named(name: str, namespace: str, **annotations: str) -> MessageStream:
    found = stream(name, namespace=namespace, table={"uri": TABLE})
    return found.model_copy(update={"metadata": found.metadata.model_copy(update={"annotations": annotations})})


def heir(**annotations: str) -> MessageStream:
    return named("heir", "shop", **ASKS, **annotations)


def giver(to: str) -> MessageStream:
    return named("orders", "billing", **{"messagestore.dev/release-table-to": to})


def adoption(**given: Any) -> Adoption:
    return Adoption.model_validate({"uri": TABLE, "from": "billing/orders", "to": "shop/heir", **given}, by_name=False)


def test_within_its_namespace_a_stream_takes_over_by_its_own_word() -> None:
    assert former_owners(heir(), []) == (OWN,)
    assert former_owners(named("heir", "shop"), []) == ()


@pytest.mark.parametrize("to", ["shop/heir", "shop"])
def test_another_namespaces_table_is_taken_over_where_its_owner_says_so(to: str) -> None:
    assert former_owners(heir(), [giver(to)]) == (OWN, FormerOwner(namespace="billing", name="orders"))


@pytest.mark.parametrize("to", ["", "shop/other", "shop/", "sho", "shop/heir2", "*", "billing", "SHOP"])
def test_an_owner_that_releases_its_table_to_somebody_else_keeps_it_from_the_heir(to: str) -> None:
    assert former_owners(heir(), [giver(to)]) == (OWN,)


def test_nothing_is_taken_over_that_was_not_asked_for() -> None:
    assert former_owners(named("heir", "shop"), [giver("shop")], [adoption()]) == ()


@pytest.mark.parametrize(
    ("given", "owner"),
    [
        ({}, FormerOwner(namespace="billing", name="orders")),
        ({"from": "billing", "to": "shop", "uri": "s3://lake/orders/"}, FormerOwner(namespace="billing")),
    ],
)
def test_the_settings_may_hand_over_the_table_of_an_owner_that_is_gone(given: Any, owner: FormerOwner) -> None:
    assert former_owners(heir(), [], [adoption(**given)]) == (OWN, owner)


@pytest.mark.parametrize("given", [{"to": "shop/other"}, {"uri": "s3a://lake/orders2"}, {"to": "billing"}])
def test_the_settings_hand_over_the_named_table_to_the_named_heir_only(given: Any) -> None:
    assert former_owners(heir(), [], [adoption(**given)]) == (OWN,)


@pytest.mark.parametrize(("owner", "covered"), [("orders", True), ("other", False)])
def test_an_owner_is_one_resource_or_any_of_a_namespace(owner: str, covered: bool) -> None:
    assert FormerOwner(namespace="billing").covers(Owner(namespace="billing", name=owner))
    assert FormerOwner(namespace="billing", name="orders").covers(Owner(namespace="billing", name=owner)) is covered
    assert not FormerOwner(namespace="shop").covers(Owner(namespace="billing", name=owner))


@pytest.mark.parametrize(
    ("to", "released"), [("shop/heir", True), ("shop", True), ("nonsense here", True), ("billing/orders", False)]
)
def test_a_table_that_its_owner_releases_is_written_no_more(to: str, released: bool) -> None:
    assert is_released(giver(to), []) is released
    assert not is_released(named("orders", "billing"), [])


def test_a_table_that_the_settings_hand_over_is_written_no_more() -> None:
    assert is_released(named("orders", "billing"), [adoption()])
    assert not is_released(named("other", "billing"), [adoption()])
    assert not is_released(heir(), [adoption()])


@pytest.mark.parametrize("party", ["", "*", "a b", "shop/", "/orders", "Shop"])
def test_a_malformed_owner_or_heir_in_the_settings_ends_the_operator(party: str) -> None:
    with pytest.raises(ValidationError):
        adoption(to=party)
