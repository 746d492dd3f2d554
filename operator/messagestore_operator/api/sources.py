"""Where messages come from."""

from typing import Annotated, Literal

from pydantic import Field

from messagestore_core.contract.base import Flag, Integer, RecordsPaths
from messagestore_core.contract.records import AfterIngest, FileFormat
from messagestore_operator.api import stream_rules
from messagestore_operator.api.common import KafkaSecurity, Storage
from messagestore_operator.api.model import Model
from messagestore_operator.api.scalars import (
    BootstrapServers,
    Duration,
    Glob,
    Quantity,
    SourceUri,
    StoreUri,
    Topic,
    TopicPattern,
)

DEFAULT_FILES_PER_BATCH = 1000
BatchSize = Annotated[Integer, Field(ge=1, le=100_000_000)]
GroupPattern = Annotated[str, Field(strict=True, min_length=1, max_length=255)]
Globs = Annotated[tuple[Glob, ...], Field(max_length=32)]


class FilesSource(Model):
    """Files in a folder, each read whole and once."""

    validations = stream_rules.FILES_SOURCE

    uri: SourceUri = Field(
        description="The folder that files arrive in. No table, archive or replay's files may be in it or around it; "
        "nor, if afterIngest removes files, another stream's source."
    )
    format: FileFormat = Field(
        default="JSONLines",
        description="JSONLines: one object per line. JSON: objects, or arrays of objects, one after the other. "
        "Text: one payload per line.",
    )
    max_files_per_batch: BatchSize | None = Field(
        default=None, description="Maximum files per batch. If this and maxBytesPerBatch are absent, 1000."
    )
    max_bytes_per_batch: Quantity | None = Field(
        default=None,
        description="Size of a batch's files. A larger one of uncompressed lines is read in several batches.",
    )
    after_ingest: AfterIngest = Field(
        default="Keep",
        description="What to do with a file after all its records are committed. Delete lets a file stay if a dead "
        "letter has only a part of one of its records. Archive copies it below archiveUri and then deletes it.",
    )
    archive_uri: StoreUri | None = Field(
        default=None,
        description="The folder of the archive. Files keep their paths below uri. It has the same storage as uri, and "
        "must not contain, or be in, a source, a table's folder or another archiveUri.",
    )
    last_line_timeout: Duration | None = Field(
        default=None,
        description="For how long a file must not have changed until a last line is read that has no line end and, "
        "with JSONLines, is no whole object. If absent, PT1M for a file: URI; on object storage it is read at once.",
    )
    records_paths: RecordsPaths = Field(
        default=(),
        description="With format JSON, where a document has an array of records, such as $.Records: each element is a "
        "record. Of several paths, the first that a document has counts. If empty, the document is a record, or each "
        "element of it if it is an array.",
    )
    include: Globs = Field(
        default=(),
        description="Globs for paths below uri, such as dt=*/**/*.json; only files that match one are read. If empty, "
        "all. Names that begin with . or _ are always skipped.",
    )
    exclude: Globs = Field(
        default=(), description="Globs for paths below uri; files that match one are skipped, whatever include says."
    )
    reread_nonce: Annotated[Integer, Field(ge=1, le=1_000_000)] | None = Field(
        default=None,
        description="A number that was not there before makes the stream read all files again. Records with a known id "
        "are duplicates; dead letters that don't come again are closed. Not for status updates.",
    )
    storage: Storage | None = Field(
        default=None, description="How to reach the folder, if that differs from the table's storage."
    )

    @property
    def files_per_batch(self) -> int | None:
        """Maximum files per batch, with the default; None if bytes limit the batch."""
        if self.max_files_per_batch is None and self.max_bytes_per_batch is None:
            return DEFAULT_FILES_PER_BATCH
        return self.max_files_per_batch


class KafkaSource(Model):
    """Topics of a Kafka cluster."""

    validations = (stream_rules.TOPICS, stream_rules.KEPT_GROUPS)

    bootstrap_servers: BootstrapServers = Field(description="Brokers to ask first, host:port separated by commas.")
    topics: Annotated[tuple[Topic, ...], Field(max_length=100)] = Field(default=(), description="Names of topics.")
    topic_pattern: TopicPattern | None = Field(
        default=None, description="Regular expression for the names of topics, instead of topics."
    )
    starting_offsets: Literal["Earliest", "Latest"] = Field(
        default="Earliest",
        description="Where a stream that has read nothing yet begins. Later topics and partitions are read from their "
        "start.",
    )
    max_records_per_batch: BatchSize | None = Field(
        default=None,
        description="Maximum records per batch. If absent, 1000000. At most one for each 4 KiB of the heap.",
    )
    keep_record: Flag = Field(
        default=False,
        description="If true, messages keep their record as it came, to be sent with envelope Original. Not for status "
        "updates.",
    )
    keep_group_offsets: Annotated[tuple[GroupPattern, ...], Field(max_length=32)] = Field(
        default=(),
        description="Names of consumer groups whose committed offsets are noted in the store, so that they can go on "
        "in a topic that is put back. * stands for any text. Only with keepRecord.",
    )
    security: KafkaSecurity | None = Field(
        default=None, description="Authentication and encryption of the connection. If absent, neither is used."
    )


class Source(Model):
    """Where messages come from: files or Kafka."""

    validations = (stream_rules.SOURCE,)

    files: FilesSource | None = Field(default=None, description="Files in a folder.")
    kafka: KafkaSource | None = Field(default=None, description="Topics of a Kafka cluster.")
