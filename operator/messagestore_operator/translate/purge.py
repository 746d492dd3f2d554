"""A RetentionPolicy's purge of one stream."""

from __future__ import annotations

from datetime import datetime

from messagestore_core.contract import run_document as contract
from messagestore_operator.api import MessageStream, RetentionPolicy
from messagestore_operator.api.retentionpolicy import PolicyRule
from messagestore_operator.translate.annotations import APPROVED_PREVIEW, adopts_from, approved_by, approved_preview
from messagestore_operator.translate.common import holds_of, integrity_of, match_of, resource_of, table_of, written_by
from messagestore_operator.translate.secrets import scrub_keys
from messagestore_operator.translate.storage import job_uri, purge_access


def purge_document(
    policy: RetentionPolicy, stream: MessageStream, run: str, at: datetime | None
) -> contract.RunDocument:
    """Apply a policy to one of its streams; the holds are the stream's.

    Raises:
        NotSupportedError: this release can't reach a folder, or can't reach it together with another one.
    """
    spec = policy.spec
    task = contract.PurgeTask(
        mode=spec.mode,
        approval_required=spec.approval == "Required",
        approved_preview=approved_preview(policy),
        approved_by=approved_by(policy) or written_by(policy, APPROVED_PREVIEW),
        rules=tuple(map(_rule, spec.rules)),
        holds=holds_of(stream),
        action=spec.action,
        scrub=_scrub(policy),
        integrity=integrity_of(stream) if spec.action == "Scrub" else None,
        archive=contract.Archive(uri=job_uri(spec.archive.uri.rstrip("/")), format=spec.archive.format)
        if spec.archive
        else None,
        erase_within=spec.erasure.within.timedelta,
        dead_letters_max_age=spec.dead_letters.max_age.timedelta if spec.dead_letters else None,
    )
    return contract.RunDocument(
        run=run,
        resource=resource_of(policy),
        table=table_of(stream, adopts_from(stream)),
        at=at,
        storage=purge_access(policy, stream).entries,
        task=task,
    )


def erase_document(
    policy: RetentionPolicy, stream: MessageStream, run: str, at: datetime | None
) -> contract.RunDocument:
    """Erase what is due on one of a policy's streams.

    Raises:
        NotSupportedError: as in ``purge_document``.
    """
    return purge_document(policy, stream, run, at).model_copy(update={"task": contract.EraseTask()})


def _rule(rule: PolicyRule) -> contract.Rule:
    before = rule.truncate_before
    return contract.Rule(
        name=rule.name,
        expired=rule.expired,
        statuses=rule.statuses,
        max_age=rule.max_age.timedelta if rule.max_age else None,
        max_messages_per_stream=rule.max_messages_per_stream,
        max_bytes=rule.max_bytes.bytes if rule.max_bytes else None,
        truncate_before=contract.StreamPosition(stream_name=before.stream_name, position=before.position)
        if before
        else None,
        match=match_of(rule.match) if rule.match else None,
        erase=rule.erase,
    )


def _scrub(policy: RetentionPolicy) -> contract.Scrub | None:
    scrub, key = policy.spec.scrub, next(scrub_keys(policy), None)
    if scrub is None:
        return None
    return contract.Scrub(
        payload_paths=scrub.payload_paths,
        metadata_paths=scrub.metadata_paths,
        result_paths=scrub.result_paths,
        headers=scrub.headers,
        error=scrub.error,
        dead_letters=scrub.dead_letters,
        method=scrub.method,
        key_environment=key.variable if key else None,
    )
