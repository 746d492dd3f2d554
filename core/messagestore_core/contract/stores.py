"""Stores as a run document names them: whose they are, and how their buckets are reached."""

from pydantic import Field

from messagestore_core.contract.base import ContractModel


class Owner(ContractModel):
    """The resource that a table folder belongs to, as its marker names it."""

    namespace: str
    name: str


class FormerOwner(ContractModel):
    """Whose folder may be taken over: a resource's, or any of a namespace."""

    namespace: str
    name: str | None = None

    def covers(self, owner: Owner) -> bool:
        """Whether an owner is meant."""
        return owner.namespace == self.namespace and self.name in (None, owner.name)


class Table(ContractModel):
    """The table folder of one stream."""

    uri: str
    owner: Owner
    adopt_from: tuple[FormerOwner, ...] = ()
    """A folder whose marker names one of these is taken over; that of any other owner is refused."""
    epoch: int | None = Field(default=None, ge=1)
    """Of the grant to write this table; each grant has a larger one. Absent: a local run, or one that only reads."""


class CredentialVariables(ContractModel):
    """Names of the environment variables that hold an object store's credentials; the values stand nowhere else."""

    access_key: str
    secret_key: str
    session_token: str | None = None
    """A variable that may be missing from the environment: long-lived keys have no token."""


class StorageEntry(ContractModel):
    """How one bucket of an object store that speaks the S3 protocol is reached."""

    bucket: str
    endpoint: str | None = None
    """Absent: the region's own."""
    region: str = "us-east-1"
    path_style_access: bool = False
    environment: CredentialVariables | None = None
    """Absent: the pod's own identity."""
    ca_file: str | None = None
    """A certificate authority in PEM, trusted beside the well-known ones."""
