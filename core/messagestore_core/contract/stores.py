"""Stores in documents and reports: who owns them, how their buckets are reached, and what they hold."""

from datetime import datetime, timedelta

from pydantic import Field

from messagestore_core.contract.base import ContractModel


class Owner(ContractModel):
    """The resource that owns a table folder; the folder's marker names it."""

    namespace: str
    name: str


class FormerOwner(ContractModel):
    """An owner whose folder may be taken over: one resource, or all of a namespace."""

    namespace: str
    name: str | None = None

    def covers(self, owner: Owner) -> bool:
        """Return whether it includes an owner."""
        return owner.namespace == self.namespace and self.name in (None, owner.name)


class Table(ContractModel):
    """The table folder of one stream."""

    uri: str
    owner: Owner
    adopt_from: tuple[FormerOwner, ...] = ()
    """The folder is taken over from these owners; a folder of any other owner is refused."""
    epoch: int | None = Field(default=None, ge=1)
    """The number of the grant to write this table; it grows with each. Absent: a local run, or one that only reads."""
    remember_purged: timedelta | None = None
    """How long after its purge an id is remembered, so that a late copy is a duplicate. Absent: it is forgotten."""
    keeps_history: bool = Field(default=False, exclude_if=lambda keeps: not keeps)
    """Whether each change of a message's lifecycle gets a row in the table ``history``."""


class CredentialVariables(ContractModel):
    """Names of the environment variables with an object store's credentials; no document has the values."""

    access_key: str
    secret_key: str
    session_token: str | None = None
    """A variable that may be missing from the environment: long-lived keys have no token."""


class StorageEntry(ContractModel):
    """How one S3 bucket is reached."""

    bucket: str
    endpoint: str | None = None
    """Absent: that of the region."""
    region: str = "us-east-1"
    path_style_access: bool = False
    environment: CredentialVariables | None = None
    """Absent: the pod's own identity."""
    ca_file: str | None = None
    """A certificate authority in PEM, trusted beside the well-known ones."""


class TableState(ContractModel):
    """What the store holds after a run, by its tables' logs; ``bytes`` are those of the messages' files."""

    version: int
    messages: int
    dead_letters: int
    """Those that are open: not redriven."""
    bytes: int
    oldest_message_time: datetime | None = None
    newest_message_time: datetime | None = None
    last_global_position: int | None = None
    files: int = 0
    """Of messages."""
    small_files: int = 0
    """Of those: the ones that a compaction would merge."""
    versions_since_checkpoint: int = 0
    """How many commits a reader of messages reads after the last checkpoint."""
    epoch: int | None = None
    """The newest epoch under which the store was written; the next grant needs a larger one."""
    dead_letters_by_reason: dict[str, int] | None = None
    """Absent where only files would tell it, and the run has not changed the dead letters."""
