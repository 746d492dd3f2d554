"""Where a ReplayJob sends: folders, topics, endpoints and streams, one or several."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from messagestore_core.contract import destinations
from messagestore_core.contract.base import Count, Flag, Integer, Where
from messagestore_operator.api import replay_rules
from messagestore_operator.api.common import CaSecretRef, KafkaSecurity, Storage, StreamRef
from messagestore_operator.api.model import Model
from messagestore_operator.api.rules import ValidationRule
from messagestore_operator.api.scalars import (
    BootstrapServers,
    Duration,
    HeaderName,
    HttpUrl,
    Label,
    Name,
    NamePattern,
    SecretKey,
    StoreUri,
    Time,
    Topic,
)


class FilesDestination(Model):
    """Objects whose names sort in replay order, and a manifest, written last."""

    uri: StoreUri = Field(
        description="The folder that is written to. It must be empty, and must not contain, or be in, a source or a "
        "table's folder."
    )
    format: Literal["JSONLines"] = Field(default="JSONLines", description="Format of the objects.")
    storage: Storage | None = Field(
        default=None, description="How to reach the folder, if that differs from the table's storage."
    )


class TopicFrom(Model):
    """Where each message names the topic that it goes to. Topics that messages name are never created."""

    validations = (replay_rules.TOPIC_FROM,)

    header: Annotated[str, Field(strict=True, min_length=1, max_length=249)] | None = Field(
        default=None, description="The message's header of this name."
    )
    reply_to: Flag = Field(default=False, description="If true, the message's field replyTo.")
    pattern: NamePattern = Field(
        description="A regular expression (RE2) that the whole name of the topic has to match, such as orders[.].*"
    )


class KafkaDestination(Model):
    """A topic of a Kafka cluster, or several."""

    validations = replay_rules.KAFKA_TO

    bootstrap_servers: BootstrapServers = Field(description="Brokers to ask first, host:port separated by commas.")
    topic: Topic | None = Field(default=None, description="Name of the topic. Give this, or topicFrom.")
    topic_from: TopicFrom | None = Field(
        default=None,
        description="Where each message names its topic. What names none that takes it goes to the destination with "
        "otherwise; without one, this destination stops there.",
    )
    key: destinations.RecordKey = Field(default="streamName", description="The field that becomes the record's key.")
    create_topic: Flag = Field(
        default=False,
        description="If true, and there is no such topic, it is made with the partitions and the configuration of the "
        "one that the records came from, as its stream has noted them. Only with envelope Original, and without "
        "trigger.",
    )
    security: KafkaSecurity | None = Field(
        default=None, description="Authentication and encryption of the connection. If absent, neither is used."
    )


class DeadLetterFolder(Model):
    """Objects of events that an endpoint refused, one a line."""

    uri: StoreUri = Field(
        description="The folder that is written to. It must not contain, or be in, a source or a table's folder."
    )
    storage: Storage | None = Field(
        default=None, description="How to reach the folder, if that differs from the table's storage."
    )


class DeadLetter(Model):
    """Where messages are set aside that an endpoint refuses."""

    files: DeadLetterFolder = Field(description="Files in a folder.")


class HttpDelivery(Model):
    """When a request is tried again, and what happens to refused messages."""

    retry: Annotated[Integer, Field(ge=0, le=100)] = Field(
        default=5, description="How often a request is tried again in a run. Later runs try it anew."
    )
    backoff_delay: Duration = Field(
        default=Duration("PT1S"), description="Wait before the first retry. It doubles with each retry."
    )
    max_backoff: Duration = Field(default=Duration("PT1M"), description="Longest wait before a retry.")
    timeout: Duration = Field(
        default=Duration("PT30S"), description="How long the connection, and each part of an answer, may take."
    )
    retry_after_max: Duration = Field(
        default=Duration("PT5M"), description="Longest wait that the endpoint's Retry-After is followed for."
    )
    dead_letter: DeadLetter | None = Field(
        default=None,
        description="Where messages are set aside that the endpoint refuses with a status 4xx other than 401, 403, "
        "404, 408, 410, 425 and 429. If absent, such a message stops the replay.",
    )


class HeaderSecretRef(Model):
    """A header of each request, with a value in a Secret of the same namespace."""

    name: Name = Field(description="Name of the Secret.")
    key: SecretKey = Field(default="value", description="Key in the Secret that holds the header's value.")
    header: HeaderName = Field(
        default="Authorization", description="Name of the header: Authorization, X-…, or ending in -Key or -Token."
    )


class HttpDestination(Model):
    """An HTTP endpoint that takes CloudEvents, one a request."""

    validations = (replay_rules.HTTP,)

    url: HttpUrl = Field(description="URL that is posted to. Redirects are not followed.")
    max_in_flight: Annotated[Integer, Field(ge=1, le=256)] = Field(
        default=8,
        description="Maximum requests under way at a time. With order PerStream one of each stream, with Global or "
        "Sequence one in all.",
    )
    delivery: HttpDelivery = Field(
        default=HttpDelivery(), description="When a request is tried again, and what happens to refused messages."
    )
    header_secret_ref: HeaderSecretRef | None = Field(
        default=None, description="A header with a secret value, such as a token. Only with https."
    )
    ca_secret_ref: CaSecretRef | None = Field(
        default=None, description="Certificate authority that signed the endpoint's certificate."
    )


class Destination(Model):
    """Where messages are sent."""

    validations: ClassVar[tuple[ValidationRule, ...]] = replay_rules.DESTINATION

    files: FilesDestination | None = Field(default=None, description="Files in a folder.")
    kafka: KafkaDestination | None = Field(default=None, description="A topic of a Kafka cluster.")
    http: HttpDestination | None = Field(default=None, description="An HTTP endpoint that takes CloudEvents.")
    stream: StreamRef | None = Field(
        default=None, description="A MessageStream of the namespace. It may be streamRef only with origin DeadLetters."
    )
    envelope: destinations.SentAs = Field(
        default="Native",
        description="The form of records: Native, CloudEvents (structured) or, to a topic or an endpoint, "
        "CloudEventsBinary, or to a topic Original (as they came from a topic, of messages that keep their record). "
        "To an endpoint, Native means CloudEvents too.",
    )


class StartPoint(Model):
    """The first message that is sent if there is no cursor yet; it is sent too. Give one field."""

    validations = replay_rules.START

    at: Literal["Beginning", "Now"] | None = Field(
        default=None, description="Beginning: the first message of the store. Now: what comes from now on."
    )
    global_position: Count | None = Field(default=None, description="The message at this global position.")
    inserted_at: Time | None = Field(
        default=None, description="The first message that was stored at this time, or later."
    )


class NamedDestination(Destination):
    """One of several destinations, with a cursor of its own, and which of the selected messages it gets."""

    validations = (*replay_rules.DESTINATION, replay_rules.ROUTE)
    transitions = (replay_rules.ROUTE_SENT_TO,)

    name: Label = Field(description="Name of the destination. Its cursor belongs to this name.")
    where: Where = ""
    otherwise: Flag = Field(
        default=False,
        description="If true, it gets the messages that match no other's where, or that one can't be computed for. "
        "Without where and otherwise, it gets all.",
    )
    start: StartPoint | None = Field(
        default=None,
        description="Where it begins, if it has no cursor yet. If absent, at spec.start; one that is added later "
        "needs its own.",
    )
