"""A RetentionPolicy's purge of one stream."""

from datetime import datetime

from messagestore_core.contract import purge as contract
from messagestore_core.contract.run_document import RunDocument
from messagestore_operator.api import MessageStream, RetentionPolicy
from messagestore_operator.names import APPROVED_BY, APPROVED_PREVIEW
from messagestore_operator.translate.annotations import adopts_from, approvals
from messagestore_operator.translate.common import (
    as_document,
    holds_of,
    integrity_of,
    resource_of,
    table_of,
    written_by,
)
from messagestore_operator.translate.secrets import scrub_keys
from messagestore_operator.translate.storage import job_uri, purge_access


def purge_document(policy: RetentionPolicy, stream: MessageStream, run: str, at: datetime | None) -> RunDocument:
    """Apply a policy to one of its streams; the holds are the stream's."""
    spec = policy.spec
    task = as_document(
        contract.PurgeTask,
        spec,
        approval_required=spec.approval == "Required",
        approved_preview=_approved(policy, stream.metadata.name),
        # The chart's admission policy lets only the user's own name in.
        approved_by=policy.metadata.annotations.get(APPROVED_BY) or written_by(policy, APPROVED_PREVIEW),
        holds=holds_of(stream),
        scrub=_scrub(policy),
        integrity=integrity_of(stream) if spec.action == "Scrub" else None,
        archive=as_document(contract.Archive, spec.archive, uri=job_uri(spec.archive.uri.rstrip("/")))
        if spec.archive
        else None,
        erase_within=spec.erasure.within.timedelta,
        dead_letters_max_age=spec.dead_letters.max_age.timedelta if spec.dead_letters else None,
    )
    return RunDocument(
        run=run,
        resource=resource_of(policy),
        table=table_of(stream, adopts_from(stream)),
        at=at,
        storage=purge_access(policy, stream).entries,
        task=task,
    )


def erase_document(policy: RetentionPolicy, stream: MessageStream, run: str, at: datetime | None) -> RunDocument:
    """Erase what is due on one of a policy's streams."""
    return purge_document(policy, stream, run, at).model_copy(update={"task": contract.EraseTask()})


def _approved(policy: RetentionPolicy, stream: str) -> str | None:
    """The stream's preview, if it is approved; else all that are, as a run on a machine knows no status."""
    approved = approvals(policy)
    entries = policy.status.streams if policy.status else ()
    of_stream = [one.preview.id for one in entries if one.name == stream and one.preview]
    return " ".join(set(approved).intersection(of_stream) or approved) or None


def _scrub(policy: RetentionPolicy) -> contract.Scrub | None:
    scrub, key = policy.spec.scrub, next(scrub_keys(policy), None)
    if scrub is None:
        return None
    return as_document(contract.Scrub, scrub, key_environment=key.variable if key else None)
