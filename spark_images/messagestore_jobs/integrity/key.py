"""Keys stand in the environment, and nowhere else: here as in a plan, a key is the variable that holds it."""

import os

from messagestore_jobs.contract.run_document import Integrity
from messagestore_jobs.store.errors import RunFailedError


def held(variable: str | None, what: str) -> str:
    """The variable, which functions of the Spark extension are told in the key's place.

    Raises:
        RunFailedError: it holds no key, so that ``what`` can't be done.
    """
    if not variable or not os.environ.get(variable):
        raise RunFailedError("MissingKey", f"{what} needs a key, and {variable} holds none")
    return variable


def key_of(integrity: Integrity) -> str:
    """The variable with the key of a stream's seals.

    Raises:
        RunFailedError: it holds none.
    """
    return held(integrity.key_environment, "spec.integrity")
