"""Which tables a resource's runs write, and under which name each one's lease is known."""

from __future__ import annotations

from messagestore_operator.translate.storage import job_uri


def table_key(uri: str) -> str:
    """A table's folder in its one spelling: resources that mean the same folder meet in it."""
    return job_uri(uri).rstrip("/")
