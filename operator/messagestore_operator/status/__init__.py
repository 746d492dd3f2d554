"""What is written on the resources: pure functions of a resource, what its runs reported, the store and the clock."""

from messagestore_operator.status.facts import StoreFacts, StreamResult
from messagestore_operator.status.policy import policy_status
from messagestore_operator.status.replay import replay_status
from messagestore_operator.status.stream import stream_status

__all__ = ["StoreFacts", "StreamResult", "policy_status", "replay_status", "stream_status"]
