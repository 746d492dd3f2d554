"""The key of a stream's seals: it stands in the environment, and nowhere else."""

import os

from messagestore_jobs.contract.run_document import Integrity
from messagestore_jobs.store.errors import RunFailedError


def key_of(integrity: Integrity) -> str:
    """The key.

    Raises:
        RunFailedError: the variable that the document names holds none.
    """
    key = os.environ.get(integrity.key_environment)
    if not key:
        raise RunFailedError("MissingKey", f"spec.integrity needs a key, and {integrity.key_environment} holds none")
    return key
