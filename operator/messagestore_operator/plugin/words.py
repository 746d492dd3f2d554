"""A resource's figures and runs in words."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

from messagestore_core.text import printable
from messagestore_operator.ages import age
from messagestore_operator.kube.objects import at, time_of
from messagestore_operator.names import approved_previews
from messagestore_operator.plugin.facts import Run
from messagestore_operator.plugin.kubectl import Document

_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def plain(text: str) -> str:
    """A text without Markdown's links and code, and without what a terminal would interpret."""
    return printable(_LINK.sub(r"\1", text).replace("`", ""))


def ago(time: str | None, now: datetime) -> str:
    """How long ago a time was; empty if there is none."""
    return age(time, now) if time else ""


def size(count: int | None) -> str:
    """Bytes in the largest unit that leaves a number above 1."""
    if count is None:
        return ""
    amount, units = float(count), iter(("B", "KiB", "MiB", "GiB"))
    unit = next(units)
    while amount >= 1024 and (larger := next(units, None)):
        amount, unit = amount / 1024, larger
    return f"{amount:.1f} {unit}" if unit != "B" else f"{count} B"


def run_words(run: Run, now: datetime) -> str:
    """A run in a line."""
    words = [run.run, *([f"({run.task}{f' of stream {run.stream}' if run.stream else ''})"] if run.task else [])]
    words += [run.state] + ([f"attempt {run.attempt}"] if run.attempt > 1 else [])
    begun, ended = time_of(run.started_at), time_of(run.finished_at)
    if begun and ended:
        words.append(f"in {max(0, round((ended - begun).total_seconds()))} s")
    if run.finished_at:
        words[-1] += f", {age(run.finished_at, now)} ago"
    elif run.started_at:
        words.append(f"for {age(run.started_at, now)}")
    elif run.current and run.launched_at is None:
        words.append("not launched yet")
    details = ": ".join(part for part in (run.reason, run.message) if part) or run.progress
    return printable(f"{' '.join(words)}{f': {details}' if details else ''}")


def counts_of(document: Document, now: datetime) -> list[str]:
    """The figures of a resource's status, a line each; none if there is no status."""
    status, spec = document.get("status") or {}, document.get("spec") or {}
    suspended = ["suspended"] if spec.get("suspend") else []
    approved = approved_previews(at(document, "metadata", "annotations") or {})
    lines: dict[str, Callable[[dict[str, Any], dict[str, Any], datetime], Iterator[str]]] = {
        "MessageStream": _of_stream,
        "RetentionPolicy": partial(_of_policy, approved=approved),
        "ReplayJob": _of_replay,
    }
    return [printable(line) for line in (*suspended, *lines[document["kind"]](spec, status, now))]


def _of_stream(spec: dict[str, Any], status: dict[str, Any], now: datetime) -> Iterator[str]:
    table = status.get("table") or {}
    held = f"{table['messages']} messages, {size(table.get('bytes')) or 'size unknown'}" if "messages" in table else ""
    yield f"store {at(spec, 'table', 'uri')}{f': {held}' if held else ''}"
    if lag := at(status, "lag", "summary"):
        yield f"not read yet: {lag}"
    if dead := table.get("deadLetters"):
        yield f"dead letters: {dead} ({dead_letters(table)})"
    if last := status.get("lastBatchTime"):
        yield f"last batch {ago(last, now)} ago"
    if due := status.get("nextRunTime"):
        yield f"next run at {due}"
    for hold in spec.get("holds") or []:
        until = f" until {hold['until']}" if hold.get("until") else ""
        yield f"hold {hold['name']}{until}"


def dead_letters(table: dict[str, Any]) -> str:
    """Dead letters by reason."""
    by_reason = table.get("deadLettersByReason") or []
    return ", ".join(f"{one['count']} {one['reason']}" for one in by_reason) or "reasons not counted yet"


def _of_policy(
    spec: dict[str, Any], status: dict[str, Any], now: datetime, *, approved: tuple[str, ...]
) -> Iterator[str]:
    yield f"mode {spec.get('mode', 'DryRun')}, approval {spec.get('approval', 'NotRequired')}"
    for one in status.get("streams") or []:
        error = at(one, "error", "message")
        yield f"stream {one['name']}{f': {error}' if error else ''}"
        if preview := one.get("preview"):
            waits = ", waits for approval" if one.get("awaitingApproval") else ""
            state = ", approved" if preview["id"] in approved else waits
            yield f"preview {preview['id']} of stream {one['name']}: {preview.get('messages', 0)} messages{state}"
        if purge := one.get("lastPurge"):
            when = ago(purge.get("at"), now)
            yield f"last purge of stream {one['name']} {when} ago: {purge.get('purged', 0)} messages removed"
    if due := status.get("nextRunTime"):
        yield f"next run at {due}"


def _of_replay(spec: dict[str, Any], status: dict[str, Any], now: datetime) -> Iterator[str]:
    origin = "dead letters" if spec.get("origin") == "DeadLetters" else "messages"
    yield f"{origin} of stream {at(spec, 'streamRef', 'name')} to {status.get('destination') or 'its destination'}"
    if progress := status.get("progress"):
        total, rate = at(status, "selection", "messages"), progress.get("messagesPerSecond")
        yield (
            f"{progress.get('replayed', 0)} of {total if total is not None else 'unknown'} sent, "
            f"{progress.get('percent', 0)} %{f', {rate:g} a second' if rate else ''}"
        )
    if (total := status.get("replayedTotal")) is not None:
        yield f"{total} sent in all rounds"
    if limit := at(spec, "rateLimit", "messagesPerSecond"):
        yield f"at most {limit} messages a second"
    for one in status.get("destinations") or []:
        name = one.get("name") or "destination"
        yield f"{name}: cursor {at(one, 'cursor', 'globalPosition')}, {at(one, 'lag', 'records')} behind it"
    if due := status.get("nextRunTime"):
        yield f"next run at {due}"
