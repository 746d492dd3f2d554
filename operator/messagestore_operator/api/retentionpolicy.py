"""RetentionPolicy: what leaves the store, when, and under which conditions."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.bounds import MOST_RULES
from messagestore_core.contract import purge
from messagestore_core.contract.base import MAX_COUNT, Flag, Integer, Statuses, Value
from messagestore_operator.api import policy_rules
from messagestore_operator.api.common import KeySecretRef, Manual, Match, Schedule, Storage, StreamRef
from messagestore_operator.api.model import Model
from messagestore_operator.api.resource import Resource
from messagestore_operator.api.retentionpolicy_status import RetentionPolicyStatus
from messagestore_operator.api.scalars import Duration, Label, Name, Quantity, StoreUri, UniqueNames
from messagestore_operator.api.spark import Spark


class StreamSelector(Model):
    """Streams of the same namespace, selected by labels."""

    match_labels: Annotated[dict[str, Value], Field(min_length=1, max_length=32)] = Field(
        description="Labels and values that a stream must have, all of them."
    )


class PolicyTrigger(Model):
    """When the policy is applied."""

    validations = (policy_rules.POLICY_TRIGGER,)

    schedule: Schedule | None = Field(default=None, description="Applies the policy at times of a cron expression.")
    manual: Manual | None = Field(
        default=None, description="Applies the policy when annotation messagestore.dev/run-requested changes."
    )


class TruncateBefore(purge.StreamPosition, Model):
    """The messages of one stream before a position."""


class ConsumedBy(purge.ConsumedBy, Model):
    """Subscriptions and consumers that have handled a message, or passed it over, all of them."""

    validations = policy_rules.CONSUMED_BY

    replay_jobs: Annotated[tuple[Name, ...], Field(max_length=16)] = Field(
        default=(),
        description="Names of ReplayJobs with start, of the policy's namespace. While one has no cursor in the "
        "stream's store, the rule selects nothing there.",
    )
    consumers: Annotated[tuple[Label, ...], Field(max_length=16)] = Field(
        default=(),
        description="Names of consumers that keep their cursors in the stream's store, see docs/consuming.md. The "
        "smallest cursor of their slots counts; while there is none, the rule selects nothing there.",
    )


class PolicyRule(Model):
    """Selects messages that meet all of its conditions. The policy removes what any rule selects."""

    validations = policy_rules.POLICY_RULE

    name: Label = Field(description="Name of the rule, unique in the policy.")
    expired: Flag = Field(default=False, description="If true, selects only messages that have expired.")
    statuses: Statuses = Field(default=(), description="Selects messages with one of these statuses. If empty, any.")
    max_age: Duration | None = Field(default=None, description="Selects messages older than this.")
    max_messages_per_stream: Annotated[Integer, Field(ge=0, le=MAX_COUNT)] | None = Field(
        default=None, description="Selects all but the newest N messages of each stream. Held messages count."
    )
    max_bytes: Quantity | None = Field(
        default=None, description="Selects the oldest messages until the payloads in the table fit into this size."
    )
    truncate_before: TruncateBefore | None = Field(
        default=None, description="Selects the messages of one stream before a position."
    )
    match: Match | None = Field(default=None, description="Selects messages by their envelopes.")
    consumed_by: ConsumedBy | None = Field(
        default=None, description="Selects messages that subscriptions and consumers have handled, or passed over."
    )
    erase: Flag = Field(
        default=False,
        description="If true, erases the selected messages: they are not archived, a tombstone keeps late copies out, "
        "and their bytes are gone by the deadline in erasure.",
    )


class Scrub(purge.ScrubbedParts, Model):
    """What is removed from messages that stay in the store."""

    validations = policy_rules.SCRUB

    key_secret_ref: KeySecretRef | None = Field(default=None, description="The key of method Hash.")


class Archive(Model):
    """Where messages are archived before they are removed."""

    uri: StoreUri = Field(
        description="The folder of the archive. It must not contain, or be in, a source or a table's folder."
    )
    format: Literal["Parquet", "JSONLines"] = Field(default="Parquet", description="Format of the archive's files.")
    storage: Storage | None = Field(
        default=None, description="How to reach the folder, if that differs from the table's storage."
    )


class Erasure(Model):
    """Deadline by which erased or scrubbed bytes are gone."""

    within: Duration = Field(
        default=Duration("P7D"),
        description="Time until the bytes are gone from the store. Earlier table versions are removed too.",
    )


class DeadLetterRetention(Model):
    """How long dead letters are kept."""

    max_age: Duration = Field(description="Removes dead letters older than this.")


class RetentionPolicySpec(Model):
    """The desired state of a policy."""

    validations = policy_rules.POLICY

    stream_refs: Annotated[tuple[StreamRef, ...], Field(max_length=100), UniqueNames()] = Field(
        default=(), description="Names of the streams."
    )
    stream_selector: StreamSelector | None = Field(
        default=None, description="Selects the streams by labels, at most 100."
    )
    trigger: PolicyTrigger = Field(description="When the policy is applied.")
    mode: Literal["DryRun", "Enforce"] = Field(
        default="DryRun", description="DryRun only shows what would be removed. Enforce removes it."
    )
    approval: Literal["NotRequired", "Required"] = Field(
        default="NotRequired",
        description="If Required, a purge waits until annotation messagestore.dev/approved-preview names its preview.",
    )
    rules: Annotated[tuple[PolicyRule, ...], Field(max_length=MOST_RULES), UniqueNames()] = Field(
        default=(), description="The policy removes messages that any rule selects and no hold covers."
    )
    action: Literal["Delete", "Scrub"] = Field(
        default="Delete",
        description="Delete removes the messages. Scrub keeps them without the values that scrub names.",
    )
    scrub: Scrub | None = Field(default=None, description="The values that action Scrub removes.")
    archive: Archive | None = Field(
        default=None, description="Where messages are archived before they are removed. If absent, they are not."
    )
    erasure: Erasure = Field(default=Erasure(), description="Deadline by which erased or scrubbed bytes are gone.")
    dead_letters: DeadLetterRetention | None = Field(
        default=None, description="How long dead letters are kept. If absent, for ever."
    )
    suspend: Flag = Field(default=False, description="If true, no new run starts.")
    spark: Spark | None = Field(default=None, description="Size and settings of the runs' Spark applications.")


class RetentionPolicy(Resource):
    """Removes or scrubs stored messages by rules."""

    kind: Literal["RetentionPolicy"] = Field(default="RetentionPolicy", description="Kind of the resource.")
    spec: RetentionPolicySpec = Field(description="The desired state of the policy.")
    status: RetentionPolicyStatus | None = Field(default=None, description="The observed state of the policy.")

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Whether its selector, if it has one, selects the streams of its namespace that have these labels."""
        selector = self.spec.stream_selector
        return selector is not None and selector.match_labels.items() <= labels.items()
