"""Sources of a run document, and how their records are read."""

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import (
    ContractModel,
    Integer,
    JsonPath,
    MessagePath,
    MessageTypes,
    Predicate,
    RecordsPaths,
    Value,
)

FileFormat = Literal["JSONLines", "JSON", "Text"]
AfterIngest = Literal["Keep", "Delete", "Archive"]
SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
TimeUnit = Literal["Seconds", "Milliseconds", "Microseconds", "Nanoseconds"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class ValueMapping(ContractModel):
    """Where a value comes from: a path in the record, a part of a Kafka record, the record's file, or a constant."""

    path: JsonPath | None = Field(default=None, description="Path in the record.")
    in_: Literal["Record", "Outer", "Document"] | None = Field(
        default=None,
        alias="in",
        exclude_if=lambda where: where is None,
        description="What path is in. Record has the fields, and counts if this is absent; Outer is around it, as "
        "unwrap found it; Document is around the array of recordsPaths, and its value has at most 1,024 bytes of JSON.",
    )
    level: Annotated[Integer, Field(ge=1, le=3)] | None = Field(
        default=None,
        exclude_if=lambda level: level is None,
        description="With in Outer: by how many steps of unwrap it is around the record. If absent, 1.",
    )
    header: Annotated[str, Field(strict=True, min_length=1, max_length=249)] | None = Field(
        default=None, description="Header of the Kafka record. Only with source.kafka."
    )
    record: Literal["Key", "Value", "Timestamp", "Topic", "Place"] | None = Field(
        default=None,
        description="A part of the Kafka record. Place is its topic, partition and offset. Only with source.kafka.",
    )
    file: Literal["Path", "Name", "ModifiedAt", "Place"] | None = Field(
        default=None,
        exclude_if=lambda part: part is None,
        description="What is known of the record's file. Path is the one below source.files.uri, Name its last part, "
        "ModifiedAt a time by RFC 3339, Place URI#offset of the record. Only with source.files.",
    )
    pattern: str | None = Field(
        default=None,
        exclude_if=lambda pattern: pattern is None,
        description="With file: a regular expression (RE2) with one group, of which the value is what the group "
        "matches, nothing decoded. If it matches nothing, the value is absent.",
    )
    partition: Annotated[str, Field(strict=True, min_length=1, max_length=249)] | None = Field(
        default=None,
        exclude_if=lambda name: name is None,
        description="Name of a partition in the file's path below source.files.uri, as dt of dt=2026-03-01. Escapes "
        "are decoded, and __HIVE_DEFAULT_PARTITION__ is null, as Hive has it. Only with source.files.",
    )
    default: Value | None = Field(default=None, description="Default if the value is absent or null.")
    value: Value | None = Field(default=None, description="A constant, the same for every record.")

    @property
    def outer(self) -> int:
        """By how many steps of unwrap the path's record is around the one with the fields; 0: it is that one."""
        return (self.level or 1) if self.in_ == "Outer" else 0

    @property
    def of_document(self) -> bool:
        """Whether the path is in the document around the array that the record is in."""
        return self.in_ == "Document"

    @property
    def of_file(self) -> bool:
        """Whether the value is one of the record's file."""
        return self.file is not None or self.partition is not None


class FieldMapping(ValueMapping):
    """Where one canonical field comes from."""

    unit: TimeUnit | None = Field(
        default=None,
        exclude_if=lambda unit: unit is None,
        description="Unit of a time that is a number since 1970, or a string of one; default has it too. If absent, "
        "the time is text by RFC 3339.",
    )


class Unwrap(ContractModel):
    """One step from a record to the record within it."""

    path: JsonPath = Field(description="Path in the record around it, to an object or to a string that holds one.")
    encoding: Literal["Text", "Base64"] = Field(
        default="Text", description="Encoding of the object in a string. An object is taken as it is."
    )


class Envelope(ContractModel):
    """How a record is read; ``fields`` are by wire name (camelCase) and only for format Custom."""

    format: Literal["Native", "CloudEvents", "Custom"] = "Native"
    fields: dict[str, FieldMapping] = {}
    required: tuple[str, ...] = ()
    unknown_fields: Literal["Ignore", "Refuse"] = "Ignore"
    """What happens to a Native record that has a field which the Native format doesn't define."""
    unwrap: tuple[Unwrap, ...] = Field(default=(), exclude_if=lambda steps: not steps)
    """The steps from a record to the record within it that has the fields, outer to inner."""
    add_headers: dict[str, ValueMapping] = Field(default={}, exclude_if=lambda headers: not headers)
    """Headers by name, of messages whose records don't have them."""

    def mappings(self) -> tuple[ValueMapping, ...]:
        """All mappings of values."""
        return (*self.fields.values(), *self.add_headers.values())


class FieldSource(ContractModel):
    """Where a field of the next version comes from in the older message."""

    path: MessagePath | None = Field(default=None, description="Path in the older message.")
    rename: Value | None = Field(
        default=None, description="Name of the field in the older message. It is emptied there."
    )
    value: Value | None = Field(default=None, description="A constant, the same for every message.")
    default: Value | None = Field(
        default=None, description="Default if nothing was found. Given alone, it applies if the field itself is absent."
    )


class Translator(ContractModel):
    """Brings messages of one schemaVersion (0 where absent) to the next; fields are by wire name."""

    from_version: int
    fields: dict[str, FieldSource] = {}
    headers: dict[str, FieldSource] = {}


class Filter(ContractModel):
    """Which messages are stored."""

    types: MessageTypes = Field(default=(), description="Types that are stored. If empty, all.")
    where: Predicate = None
    unmatched: Literal["Drop", "DeadLetter"] = Field(
        default="Drop", description="Drop counts the other messages as filtered. DeadLetter makes them dead letters."
    )


class Integrity(ContractModel):
    """Messages are sealed with a key. ``key_environment`` names the variable that holds it."""

    key_environment: str
    previous_environments: tuple[str, ...] = ()
    """The variables with the keys of earlier seals."""
    unsigned: Literal["Refuse", "Accept"] = "Refuse"
    """What happens to a message without a seal when it is sent."""


class _UnderPrefix(ContractModel):
    """Files under one prefix; at most one of the two bounds on a batch."""

    uri: str
    format: FileFormat = "JSONLines"
    max_files_per_batch: int | None = None
    max_bytes_per_batch: int | None = None


class FilesSource(_UnderPrefix):
    """Files as they arrive."""

    kind: Literal["files"] = "files"
    after_ingest: AfterIngest = "Keep"
    """What happens to a file once all of its records are committed."""
    archive_uri: str | None = None
    """With Archive: the folder that files are copied into. They keep their path below ``uri``."""
    include: tuple[str, ...] = Field(default=(), exclude_if=lambda globs: not globs)
    """Only files whose path below ``uri`` matches one of these globs are read; empty: all."""
    exclude: tuple[str, ...] = Field(default=(), exclude_if=lambda globs: not globs)
    """Files that match one of these are not read, whatever ``include`` says."""
    records_path: RecordsPaths = Field(default=(), exclude_if=lambda paths: not paths)
    """Of format JSON: the records of a document are the elements of the array at the first of these that it has."""
    read_again: int | None = Field(default=None, exclude_if=lambda number: number is None)
    """Given if files that another source id has read are read anew, so that their dead letters may be closed."""
    last_line_after: timedelta | None = None
    """For how long a file must not have changed until a last line without an end is read; None: it is read at once."""


class RecordsSource(_UnderPrefix):
    """Dead letters that are ingested again.

    Parquet with columns value, kind, uri, partition, offset and headers.
    ``format`` is that of the files that they were read from first.
    """

    kind: Literal["records"] = "records"
    of_kafka: bool = False
    """Whether the stream reads Kafka. Then a record's key, headers and time count too."""
    below: str | None = Field(default=None, exclude_if=lambda uri: uri is None)
    """The folder that a stream of files reads."""


class KafkaCredentials(ContractModel):
    """Names of the environment variables with a user's name and password; no document has the values.

    With OAUTHBEARER they have a client's id and secret.
    """

    username: str
    password: str


class KafkaCertificate(ContractModel):
    """Files with a client's certificate and its private key, in PEM."""

    certificate_file: str
    key_file: str


class KafkaOauth(ContractModel):
    """Where a client gets its tokens, by the grant of client credentials."""

    token_endpoint: str
    scope: str | None = None
    ca_file: str | None = None
    """A certificate authority of the endpoint in PEM, trusted in place of the well-known ones."""


class KafkaCluster(ContractModel):
    """How a Kafka cluster is reached."""

    bootstrap_servers: str
    protocol: SecurityProtocol = "PLAINTEXT"
    mechanism: SaslMechanism | None = None
    environment: KafkaCredentials | None = None
    """With a mechanism."""
    username: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """The user's name, if no variable has it."""
    ca_file: str | None = None
    """A certificate authority in PEM, trusted in place of the well-known ones."""
    client_certificate: KafkaCertificate | None = Field(default=None, exclude_if=lambda files: files is None)
    """With TLS: by which the brokers know the client."""
    oauth: KafkaOauth | None = Field(default=None, exclude_if=lambda oauth: oauth is None)
    """With mechanism OAUTHBEARER, and only then."""


class KafkaSource(ContractModel):
    """Topics of a Kafka cluster: listed by name, or all whose whole name matches a pattern."""

    kind: Literal["kafka"] = "kafka"
    cluster: KafkaCluster
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    starting_offsets: Literal["Earliest", "Latest"] = "Earliest"
    """Where reading begins in partitions that the first run finds; later ones are read from their first record."""
    max_records_per_batch: int | None = None
    format: Literal["JSON"] = "JSON"
    """A record's value is one JSON object."""
    keep_record: bool = Field(default=False, exclude_if=lambda keeps: not keeps)
    """Whether each message has its record as it came, in column ``record``."""
    keep_groups: tuple[str, ...] = Field(default=(), exclude_if=lambda patterns: not patterns)
    """Names of consumer groups whose offsets are noted; ``*`` stands for any text."""
