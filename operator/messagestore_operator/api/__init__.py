"""The three kinds of resource as models; the CustomResourceDefinitions are generated from them."""

from messagestore_operator.api.kinds import KINDS, parse_resource
from messagestore_operator.api.messagestream import MessageStream
from messagestore_operator.api.messagestream_status import MessageStreamStatus
from messagestore_operator.api.replayjob import ReplayJob
from messagestore_operator.api.replayjob_status import ReplayJobStatus
from messagestore_operator.api.resource import Metadata, Resource
from messagestore_operator.api.retentionpolicy import RetentionPolicy
from messagestore_operator.api.retentionpolicy_status import RetentionPolicyStatus

__all__ = [
    "KINDS",
    "MessageStream",
    "MessageStreamStatus",
    "Metadata",
    "ReplayJob",
    "ReplayJobStatus",
    "Resource",
    "RetentionPolicy",
    "RetentionPolicyStatus",
    "parse_resource",
]
