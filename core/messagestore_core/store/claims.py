"""Claim checks: payloads that lie in objects of their own, below the store's folder and nowhere else.

A row says where its payload lies, and whoever may write to the bucket may write rows. So a row is believed a name,
never a place: the object is looked for below the store's own folder, and nothing else is read, sent or deleted for it.
"""

import hashlib
import re
from functools import lru_cache

from messagestore_core.store.objects import is_local, join, local_path

CLAIMS = "payloads"
"""The folder of a store that holds them."""
CLAIM_NAME = r"[0-9]{20}(?:-[0-9a-f-]+)?"
"""A global position and the run that wrote it; each scrub of the payload adds to it. Earlier releases name no run."""


def claim_suffix(run: str, epoch: int | None) -> str:
    """What the names of a run's claim checks end with, so that no run that was overtaken can overwrite another's."""
    return hashlib.sha256(f"{run}/{epoch}".encode()).hexdigest()[:16]


def claims_uri(uri: str) -> str:
    """Where the claim checks of the store in a folder lie."""
    return join(uri, CLAIMS)


def claim_pattern(uri: str) -> str:
    """What ``payload_uri`` is in the store in a folder, the name as its one group; for Java's regular expressions too.

    A folder may be spelled as Hadoop, as people and as S3's own tools do; below it there is one spelling.
    """
    folder = uri.rstrip("/")
    if is_local(uri):
        spelled = r"(?:file:(?://)?)?" + re.escape(local_path(folder))
    else:
        spelled = "s3a?://" + re.escape(re.sub("^s3a?://", "", folder))
    return f"{spelled}/+{CLAIMS}/({CLAIM_NAME})"


def claim_name(uri: str, payload_uri: str) -> str | None:
    """The name of a row's claim check below :func:`claims_uri`; None where it would lie elsewhere."""
    found = _compiled(uri).fullmatch(payload_uri)
    return found[1] if found else None


@lru_cache
def _compiled(uri: str) -> re.Pattern[str]:
    return re.compile(claim_pattern(uri))
