"""Claim checks: payloads in objects of their own, always below the store's folder.

A row names its object, and anyone who can write to the bucket can write rows. So only the object's name is taken from a
row, never its folder: no row makes a run read, send or delete anything outside the store's own folder.
"""

import hashlib
import re
from functools import lru_cache

from messagestore_core.store.fence import HeldStore
from messagestore_core.store.layout import CLAIM_CHECK_NAME, CLAIM_CHECKS
from messagestore_core.store.objects import is_local, join, local_path


def claim_check_suffix(run: str, epoch: int | None) -> str:
    """The end of the names of a run's claim checks, so that no fenced run can overwrite those of a newer one."""
    return hashlib.sha256(f"{run}/{epoch}".encode()).hexdigest()[:16]


def withdraw_claim_checks(store: HeldStore, first: int) -> None:
    """Remove those claim checks whose global positions, from ``first`` on, no message has yet."""
    objects = store.objects(CLAIM_CHECKS)
    for name in objects.names():
        if re.fullmatch(CLAIM_CHECK_NAME, name) and name >= f"{first:020}":
            with store.step("claim-withdrawn"):
                objects.delete(name)


def claim_checks_uri(uri: str) -> str:
    """The URI of a store's claim checks."""
    return join(uri, CLAIM_CHECKS)


def claim_check_pattern(uri: str) -> str:
    """A regular expression, for Python and Java, of ``payload_uri`` in a store; its one group is the object's name.

    It takes the spellings of the folder that Hadoop, people and S3's tools use; below it there is one spelling.
    """
    folder = uri.rstrip("/")
    if is_local(uri):
        spelled = r"(?:file:(?://)?)?" + re.escape(local_path(folder))
    else:
        spelled = "s3a?://" + re.escape(re.sub("^s3a?://", "", folder))
    return f"{spelled}/+{CLAIM_CHECKS}/({CLAIM_CHECK_NAME})"


def claim_check_name(uri: str, payload_uri: str) -> str | None:
    """The name of a row's claim check below ``claim_checks_uri``; None where ``payload_uri`` leads elsewhere."""
    match = _compiled(uri).fullmatch(payload_uri)
    return match[1] if match else None


@lru_cache
def _compiled(uri: str) -> re.Pattern[str]:
    return re.compile(claim_check_pattern(uri))
