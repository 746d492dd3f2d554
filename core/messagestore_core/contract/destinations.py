"""Where a replay sends to."""

from datetime import timedelta
from typing import Literal, TypeAlias

from pydantic import Field

from messagestore_core.addresses import Reach
from messagestore_core.contract.base import ContractModel, Count
from messagestore_core.contract.ingest import IngestTask
from messagestore_core.contract.records import KafkaCluster
from messagestore_core.contract.stores import Table

RecordKey = Literal["streamName", "category", "messageId", "correlationId", "sequenceId"]
SentAs = Literal["Native", "CloudEvents", "CloudEventsBinary", "Original"]
"""The form of what a replay sends; the last two only to a topic."""


class FilesDestination(ContractModel):
    """Objects whose names sort in replay order, a manifest written last."""

    kind: Literal["files"] = "files"
    uri: str
    format: Literal["JSONLines", "JSON"] = "JSONLines"
    envelope: SentAs = Field(default="Native", exclude_if=lambda sent_as: sent_as == "Native")

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that are written to."""
        return (self.uri,)


class TopicFrom(ContractModel):
    """Where a message names the topic that it goes to."""

    header: str | None = None
    """One of its headers; absent: its field ``replyTo``."""
    pattern: str
    """An expression of RE2 that the whole name has to match."""


class KafkaDestination(ContractModel):
    """A topic, each record with the message's field ``key`` as its key."""

    kind: Literal["kafka"] = "kafka"
    cluster: KafkaCluster
    topic: str = Field(default="", exclude_if=lambda topic: not topic)
    """Empty: each message names its own."""
    topic_from: TopicFrom | None = Field(default=None, exclude_if=lambda given: given is None)
    """Where messages name theirs."""
    key: RecordKey = "streamName"
    envelope: SentAs = Field(default="Native", exclude_if=lambda sent_as: sent_as == "Native")
    create: bool = Field(default=False, exclude_if=lambda makes: not makes)
    """Whether a topic that is missing is made, as the store has noted the one that its records came from."""

    @property
    def folders(self) -> tuple[str, ...]:
        """None."""
        return ()


class Folder(ContractModel):
    """A folder that objects are written to."""

    uri: str


class HttpRetries(ContractModel):
    """How often and when a request is tried again, within one run."""

    retry: Count = 5
    backoff_delay: timedelta = timedelta(seconds=1)
    """Before the first retry; it doubles with each."""
    backoff_max: timedelta = timedelta(minutes=1)
    timeout: timedelta = timedelta(seconds=30)
    """For the connection, and for each part of an answer."""
    retry_after_max: timedelta = timedelta(minutes=5)
    """The longest wait that an endpoint may ask for."""


class HttpHeader(ContractModel):
    """A header of each request; ``environment`` names the variable with its value."""

    name: str
    environment: str


class HttpDestination(ContractModel):
    """An endpoint that takes CloudEvents, one a request."""

    kind: Literal["http"] = "http"
    url: str
    envelope: Literal["CloudEvents", "CloudEventsBinary"] = "CloudEvents"
    in_flight: int = Field(default=8, ge=1, le=256)
    """Requests under way at a time."""
    delivery: HttpRetries = HttpRetries()
    dead_letter: Folder | None = None
    """Where messages that the endpoint refuses are set aside; absent: such a message ends the run."""
    ca_file: str | None = None
    """The authority that signed the endpoint's certificate; absent: one of the well-known ones."""
    header: HttpHeader | None = None
    addresses: Reach = "Any"
    """Which addresses the endpoint's name may stand for."""

    @property
    def folders(self) -> tuple[str, ...]:
        """The folder of refused messages, if there is one."""
        return (self.dead_letter.uri,) if self.dead_letter else ()


class StreamDestination(ContractModel):
    """Another stream's table, and how that stream ingests records."""

    kind: Literal["stream"] = "stream"
    table: Table
    ingest: IngestTask

    @property
    def folders(self) -> tuple[str, ...]:
        """The table's folder."""
        return (self.table.uri,)


Destination: TypeAlias = FilesDestination | KafkaDestination | HttpDestination | StreamDestination
