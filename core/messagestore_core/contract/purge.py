"""A purge, and the erasure after it: their tasks, with rules and holds, and what they report."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import (
    Categories,
    ContractModel,
    CorrelationIds,
    Count,
    Flag,
    Headers,
    Identifier,
    JsonPaths,
    MessageIds,
    MessageTypes,
    Predicate,
    Statuses,
    StreamName,
    StreamNames,
    Value,
)
from messagestore_core.contract.records import Integrity
from messagestore_core.contract.stores import TableState


class Match(ContractModel):
    """Messages that meet all given conditions on their envelopes."""

    stream_names: StreamNames = ()
    categories: Categories = ()
    types: MessageTypes = ()
    statuses: Statuses = ()
    correlation_ids: CorrelationIds = ()
    sequence_ids: Annotated[tuple[Identifier, ...], Field(max_length=1000)] = Field(
        default=(), description="Identifiers of message sequences, any of them."
    )
    message_ids: MessageIds = ()
    headers: Headers = {}
    where: Predicate = None


MATCH_LISTS = {
    "stream_names": "stream_name",
    "categories": "category",
    "types": "type",
    "statuses": "status",
    "correlation_ids": "correlation_id",
    "sequence_ids": "sequence_id",
    "message_ids": "message_id",
}
"""The columns in which a match, or a selection, lists values, by its fields."""


class Hold(ContractModel):
    """Keeps messages from all rules while it lasts."""

    name: str
    match: Match = Match()
    until: datetime | None = None


class StreamPosition(ContractModel):
    """The messages of one stream before a position."""

    stream_name: StreamName = Field(description="Name of the stream.")
    position: Count = Field(description="Selects messages at lower positions.")


class ConsumedBy(ContractModel):
    """Subscriptions and consumers that have handled a message, or passed it over, all of them."""

    replay_jobs: Annotated[tuple[Identifier, ...], Field(max_length=16)] = Field(
        default=(), description="Names of ReplayJobs with start, of the policy's namespace."
    )
    consumers: Annotated[tuple[Identifier, ...], Field(max_length=16)] = Field(
        default=(),
        exclude_if=lambda names: not names,
        description="Names of consumers that keep their cursors in the stream's store.",
    )


class Rule(ContractModel):
    """All conditions of one rule must hold."""

    name: str
    expired: bool = False
    statuses: Statuses = ()
    max_age: timedelta | None = None
    max_messages_per_stream: int | None = None
    max_bytes: int | None = None
    truncate_before: StreamPosition | None = None
    match: Match | None = None
    consumed_by: ConsumedBy | None = Field(default=None, exclude_if=lambda consumers: consumers is None)
    erase: bool = False


class ScrubbedParts(ContractModel):
    """What is removed from messages that stay in the store."""

    payload_paths: JsonPaths = Field(default=(), description="Paths of values in JSON payloads.")
    metadata_paths: JsonPaths = Field(default=(), description="Paths of values in the metadata.")
    result_paths: JsonPaths = Field(default=(), description="Paths of values in JSON results.")
    headers: Annotated[tuple[Annotated[Value, Field(min_length=1)], ...], Field(max_length=64)] = Field(
        default=(), description="Names of headers."
    )
    error: Flag = Field(default=False, description="If true, the error text is removed too.")
    dead_letters: Flag = Field(
        default=False, description="If true, dead letters that name a scrubbed message are removed."
    )
    method: Literal["Redact", "Hash", "Drop"] = Field(
        default="Redact", description="What replaces the value: a fixed mark, a keyed hash, or nothing."
    )


class Scrub(ScrubbedParts):
    """What a purge scrubs. ``key_environment`` names the variable that holds the key of Hash."""

    key_environment: str | None = None


class Archive(ContractModel):
    """Where messages are written before they are removed."""

    uri: str
    format: Literal["Parquet", "JSONLines"] = "Parquet"


class PurgeTask(ContractModel):
    """Preview what the rules select and, with mode Enforce, remove or scrub it."""

    kind: Literal["purge"] = "purge"
    mode: Literal["DryRun", "Enforce"] = "DryRun"
    approved_preview: str | None = None
    """With ``approval_required``: the ids of the previews that may be enforced, with spaces between."""
    approved_by: str | None = None
    """Who approved them; absent: the one who asks for the run, or unknown."""
    approval_required: bool = False
    rules: tuple[Rule, ...] = ()
    holds: tuple[Hold, ...] = ()
    action: Literal["Delete", "Scrub"] = "Delete"
    scrub: Scrub | None = None
    integrity: Integrity | None = None
    """Of the store: scrubbed messages get a new seal if their old one was valid."""
    archive: Archive | None = None
    erase_within: timedelta = timedelta(days=7)
    dead_letters_max_age: timedelta | None = None

    def approves(self, preview_id: str) -> bool:
        """Whether a preview may be enforced."""
        return preview_id in (self.approved_preview or "").split()


class EraseTask(ContractModel):
    """Remove the bytes of erased messages from storage where that is due."""

    kind: Literal["erase"] = "erase"


class Unsent(ContractModel):
    """A subscription of the store: what a purge leaves for it, or takes from it."""

    name: str
    """Of the ReplayJob; of another namespace than the policy's with that before it, and a slash."""
    global_position: int | None = None
    """Its cursor; None: the store has none of it, so that all wait for it."""
    waiting: int = 0
    """Messages that rules leave only until this subscription has passed them."""
    waiting_since: datetime | None = None
    """Since when the first of them would have left; limits that depend on other messages don't count."""
    missed: int = 0
    """Messages behind the cursor that leave: it will never send them."""


class Preview(ContractModel):
    """What a purge would remove or scrub; ``by_rule`` counts a message under each rule that selects it."""

    id: str
    table_version: int
    as_of: datetime
    messages: int
    bytes: int
    oldest: datetime | None = None
    newest: datetime | None = None
    by_rule: dict[str, int] = {}
    held: int = 0
    undecided: int = 0
    """Messages that stay because a rule's predicate could not be evaluated on them."""
    subscriptions: tuple[Unsent, ...] = Field(default=(), exclude_if=lambda unsent: not unsent)
    """Those that rules wait for, as far as they were when this was frozen, and those that would miss messages."""


class Purged(ContractModel):
    """What a purge did."""

    run: str
    at: datetime
    table_version_before: int
    table_version_after: int
    purged: int = 0
    archived: int = 0
    scrubbed: int = 0
    erased: int = 0
    """How many of them have a tombstone. Another run removes their bytes, by ``erase_due_by``."""
    held: int = 0
    dead_letters: int = 0
    tombstones_version: int | None = None
    """The version of table ``tombstones`` in which all of them have one."""
    erase_due_by: datetime | None = None
    erased_at: datetime | None = None
    """Only by an earlier release, whose purges removed the bytes themselves; so is ``not_erased``."""
    not_erased: tuple[str, ...] = ()


class PurgeOutcome(ContractModel):
    """Always a preview; the purge too where it was enforced and doesn't wait for approval."""

    kind: Literal["purge"] = "purge"
    preview: Preview
    purge: Purged | None = None
    awaiting_approval: bool = False
    table: TableState


class EraseOutcome(ContractModel):
    """What was erased for good, and when the next erasure is due."""

    kind: Literal["erase"] = "erase"
    erased: int = 0
    erased_at: datetime | None = None
    erase_due_by: datetime | None = None
    not_erased: tuple[str, ...] = ()
    table: TableState
