"""Translates resources to run documents: one pure function per kind; durations and quantities become numbers.

What makes a document or an access raises NotSupportedError if a resource asks for something that this release can't do,
such as a folder that is on no supported object store, or storages of a bucket that contradict each other.
"""

from messagestore_operator.translate.annotations import adopts, approvals
from messagestore_operator.translate.ingest import ingest_document, ingest_task
from messagestore_operator.translate.kafka import ingest_access, replay_access
from messagestore_operator.translate.names import job_id, numbered_run_name, run_name, source_id
from messagestore_operator.translate.purge import erase_document, purge_document
from messagestore_operator.translate.refusal import NotSupportedError, RefusedField
from messagestore_operator.translate.replay import replay_document
from messagestore_operator.translate.secrets import SecretVariable, scrub_keys, seal_keys
from messagestore_operator.translate.storage import CertificateMount, StorageAccess, purge_access
from messagestore_operator.translate.unsupported import refusals

__all__ = [
    "CertificateMount",
    "NotSupportedError",
    "RefusedField",
    "SecretVariable",
    "StorageAccess",
    "adopts",
    "approvals",
    "erase_document",
    "ingest_access",
    "ingest_document",
    "ingest_task",
    "job_id",
    "numbered_run_name",
    "purge_access",
    "purge_document",
    "refusals",
    "replay_access",
    "replay_document",
    "run_name",
    "scrub_keys",
    "seal_keys",
    "source_id",
]
