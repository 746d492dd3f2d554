"""One table: in each state of a resource, its phase, its conditions, and what `kubectl get -o wide` prints of them."""

import pytest

from messagestore_operator.api.columns import cells, header
from support.resource_states import NOW, State, states

TABLE = """
MessageStream    pending                  Pending           Ready=False:Pending           Reconciling=True
MessageStream    idle                     Idle              Ready=True:Ingesting
MessageStream    running                  Running           Ready=True:Ingesting
MessageStream    suspended                Suspended         Ready=True:Suspended
MessageStream    paused                   Idle              Ready=True:Paused
MessageStream    without-files            Idle              Ready=True:SourceNotFound
MessageStream    failing                  Failing           Ready=False:TableBusy         Reconciling=True
MessageStream    stalled                  Stalled           Ready=False:TableRefused      Stalled=True
MessageStream    stalled-and-tried-again  Stalled           Ready=False:StorageDenied     Stalled=True
MessageStream    lost-and-run-again       Running           Ready=False:Running           Reconciling=True
MessageStream    changed-and-run-again    Running           Ready=False:Running           Reconciling=True
MessageStream    after-a-purge            Idle              Ready=True:Ingesting
RetentionPolicy  pending                  Pending           Ready=False:Pending           Reconciling=True
RetentionPolicy  manual                   Idle              Ready=True:Waiting
RetentionPolicy  purged                   Idle              Ready=True:Purged
RetentionPolicy  previewed                Idle              Ready=True:Previewed
RetentionPolicy  awaiting-approval        AwaitingApproval  Ready=True:AwaitingApproval
RetentionPolicy  approved                 Running           Ready=True:Running
RetentionPolicy  suspended                Suspended         Ready=True:Suspended
RetentionPolicy  paused                   Pending           Ready=True:Paused
RetentionPolicy  failing                  Failing           Ready=False:TableBusy         Reconciling=True
RetentionPolicy  stalled                  Stalled           Ready=False:TableRefused      Stalled=True
RetentionPolicy  stalled-and-tried-again  Stalled           Ready=False:StorageDenied     Stalled=True
RetentionPolicy  lost-and-run-again       Running           Ready=False:Running           Reconciling=True
ReplayJob        pending                  Pending           Ready=False:Pending           Reconciling=True
ReplayJob        running                  Running           Ready=False:Running           Reconciling=True
ReplayJob        suspended                Paused            Ready=True:Suspended
ReplayJob        paused                   Pending           Ready=True:Paused
ReplayJob        succeeded                Succeeded         Ready=True:Replayed           Complete=True
ReplayJob        degraded                 Succeeded         Ready=True:MessagesBroken     Complete=True Degraded=True
ReplayJob        previewed                Succeeded         Ready=True:Previewed          Complete=True
ReplayJob        sent-again               Idle              Ready=True:Replayed
ReplayJob        lost-and-run-again       Running           Ready=False:Running           Reconciling=True
ReplayJob        tried-again              Pending           Ready=False:TableBusy         Reconciling=True
ReplayJob        stalled-and-tried-again  Stalled           Ready=False:StorageDenied     Stalled=True
ReplayJob        failed                   Failed            Ready=False:TableRefused      Stalled=True Failed=True
"""
_OF_ALL_KINDS = ("unseen", "changed", "deleting")
"""States that say nothing of the phase."""


def _line(state: State) -> list[str]:
    status = state.document["status"]
    ready, *others = status["conditions"]
    told = f"Ready={ready['status']}:{ready['reason']}"
    return [state.kind, state.name, status["phase"], told, *(f"{one['type']}={one['status']}" for one in others)]


def test_each_state_has_its_phase_and_conditions() -> None:
    found = [_line(state) for state in states() if state.name not in _OF_ALL_KINDS]
    assert sorted(found) == sorted(line.split() for line in TABLE.strip().splitlines())


@pytest.mark.parametrize("state", [one for one in states() if one.name not in _OF_ALL_KINDS], ids=lambda one: one.title)
def test_the_columns_show_the_conditions_of_the_status(state: State) -> None:
    status = state.document["status"]
    shown = dict(zip(header(state.kind, wide=True), cells(state.document, NOW, wide=True), strict=True))
    ready = status["conditions"][0]
    assert [shown[name] for name in ("READY", "PHASE", "REASON")] == [ready["status"], status["phase"], ready["reason"]]


def test_after_a_purge_the_columns_show_what_is_left_and_the_last_position_given() -> None:
    (state,) = [one for one in states() if one.title == "MessageStream-after-a-purge"]
    shown = dict(zip(header(state.kind, wide=True), cells(state.document, NOW, wide=True), strict=True))
    assert (shown["MESSAGES"], shown["POSITION"]) == ("289", "329")
