"""How Flux's `wait: true` and `kubectl wait` see the three kinds."""

import pytest

from support.kstatus import verdict
from support.resource_states import State, states

each_state = pytest.mark.parametrize("state", states(), ids=lambda state: state.title)


@each_state
def test_flux_and_kubectl_wait_see_the_state_of_a_resource(state: State) -> None:
    assert verdict(state.document) == state.verdict


@each_state
def test_conditions_follow_the_conventions_of_kstatus(state: State) -> None:
    """After the first look, Ready is always there; while it is not True, Reconciling or Stalled explains why."""
    conditions = {one["type"]: one for one in state.document["status"]["conditions"]}
    if state.name == "unseen":
        assert conditions == {}
        return
    explained = {"Reconciling", "Stalled"} & set(conditions)
    assert len(explained) == (0 if conditions["Ready"]["status"] == "True" else 1)
    for one in conditions.values():
        assert one["observedGeneration"] == state.document["status"]["observedGeneration"]
        assert one["reason"].isalpha()
        assert one["message"]


def test_a_kind_without_a_status_would_be_current_at_once() -> None:
    """Why the CRDs give a resource its first status: Flux would see it as ready before it has begun."""
    assert verdict({"metadata": {"generation": 1}}) == "Current"
    assert verdict({"metadata": {"generation": 1}, "status": {"observedGeneration": 0}}) == "InProgress"
