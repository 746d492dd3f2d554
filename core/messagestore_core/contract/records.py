"""What arrives, as a run document tells it: sources, and how their records are read."""

from typing import Literal

from messagestore_core.contract.base import ContractModel

FileFormat = Literal["JSONLines", "JSON", "Text"]


class FieldMapping(ContractModel):
    """Where a record holds one canonical field: the value at ``path`` (else ``default``), or always ``value``.

    Of Kafka, in place of a path: a header, or what the record is or says beside its value.
    """

    path: str | None = None
    header: str | None = None
    record: Literal["Key", "Value", "Timestamp", "Topic", "Place"] | None = None
    default: str | None = None
    value: str | None = None


class Envelope(ContractModel):
    """How a record is read; ``fields`` are by wire name (camelCase) and only for format Custom."""

    format: Literal["Native", "CloudEvents", "Custom"] = "Native"
    fields: dict[str, FieldMapping] = {}
    required: tuple[str, ...] = ()
    unknown_fields: Literal["Ignore", "Refuse"] = "Ignore"
    """What becomes of a Native record that has a field which no Native record has."""


class FieldSource(ContractModel):
    """Where a field of the next envelope version comes from: the message as it was, or a constant."""

    path: str | None = None
    rename: str | None = None
    value: str | None = None
    default: str | None = None


class Translator(ContractModel):
    """What brings messages of one schemaVersion (none is 0) to the next; fields are by wire name."""

    from_version: int
    fields: dict[str, FieldSource] = {}
    headers: dict[str, FieldSource] = {}


class Filter(ContractModel):
    """The message selector."""

    types: tuple[str, ...] = ()
    where: str | None = None
    unmatched: Literal["Drop", "DeadLetter"] = "Drop"


class Integrity(ContractModel):
    """Messages are sealed with a key. ``key_environment`` names the variable that holds it."""

    key_environment: str
    unsigned: Literal["Refuse", "Accept"] = "Refuse"
    """What becomes of a message without a seal when it is sent."""


class _UnderPrefix(ContractModel):
    """Files under one prefix; at most one of the two bounds on a batch."""

    uri: str
    format: FileFormat = "JSONLines"
    max_files_per_batch: int | None = None
    max_bytes_per_batch: int | None = None


class FilesSource(_UnderPrefix):
    """Files as they arrive."""

    kind: Literal["files"] = "files"
    after_ingest: Literal["Keep", "Delete", "Archive"] = "Keep"
    """What becomes of a file once all in it is committed."""
    archive_uri: str | None = None
    """With Archive: the folder that files are copied into, under the path that they have below ``uri``."""


class RecordsSource(_UnderPrefix):
    """Records that were set aside, to be taken in again.

    Parquet with columns value, kind, uri, partition, offset and headers.
    ``format`` is that of the files which they were read from.
    """

    kind: Literal["records"] = "records"
    of_kafka: bool = False
    """Whether the stream reads Kafka, so that what a record says beside its value counts."""


class KafkaCredentials(ContractModel):
    """Names of the environment variables that hold a user's name and password; the values stand nowhere else."""

    username: str
    password: str


class KafkaCluster(ContractModel):
    """How a Kafka cluster is reached."""

    bootstrap_servers: str
    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    environment: KafkaCredentials | None = None
    """With a mechanism."""
    ca_file: str | None = None
    """A certificate authority in PEM, trusted in place of the well-known ones."""


class KafkaSource(ContractModel):
    """Topics of a Kafka cluster, by name or those whose whole name matches a pattern."""

    kind: Literal["kafka"] = "kafka"
    cluster: KafkaCluster
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    starting_offsets: Literal["Earliest", "Latest"] = "Earliest"
    """Where the first look at the source begins; what appears later is read from its first record."""
    max_records_per_batch: int | None = None
    format: Literal["JSON"] = "JSON"
    """A record's value is one JSON object."""
