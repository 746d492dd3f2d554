"""Why a run failed: a constant reason, and a message that says what to do, without secrets or values of records."""

import re
from collections.abc import Iterator

from messagestore_core.contract.base import RunError
from messagestore_core.contract.run_document import RunDocument
from messagestore_core.store.errors import HTTP_UNREACHABLE, KAFKA_UNREACHABLE, OUT_OF_MEMORY, RunFailedError
from messagestore_core.text import clipped, printable
from messagestore_jobs.driver.folders import storage_uris
from messagestore_jobs.driver.secrets import scrubbed, secrets_of

RUN_FAILED = "RunFailed"
STORAGE_DENIED = "StorageDenied"
STORAGE_MISSING = "StorageMissing"
STORAGE_UNREACHABLE = "StorageUnreachable"
AS_OF_ENDING_PODS = frozenset({RUN_FAILED, STORAGE_UNREACHABLE, KAFKA_UNREACHABLE, HTTP_UNREACHABLE, OUT_OF_MEMORY})
"""Reasons that also a run has whose executors, session or network end with its pod."""

_S3_ANSWER = re.compile(r"<Code>([^<]+)</Code>\s*<Message>([^<]*)</Message>")
_WRAPPERS = re.compile(r"Exception thrown in awaitResult|External scheduler cannot be instantiated|TargetException$")
"""Java's exceptions that say nothing: the cause does."""
_CHAINS = ("Generic S3 error", "Operation not supported")
"""How errors of delta-rs begin that list causes, one per line."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")

_MEMORY = re.compile(r"OutOfMemoryError|Java heap space|GC overhead limit|\bOOMKilled\b|exit code:? 137|MemoryError")
_LOST_JVM = re.compile(r"Answer from Java side is empty|Error while sending or receiving|Java gateway process exited")
_NO_CLUSTER = re.compile(r"\bio\.fabric8\.kubernetes\.client\.\w+Exception")
_NO_ACCESS = re.compile("Permission denied|AccessDeniedException|Read-only file system")
_STORAGE = (
    (
        STORAGE_DENIED,
        re.compile(r"no credentials found in chain|NoAuthWithAWS|Unable to load credentials"),
        "there are no credentials for {which} at {endpoints}: name a Secret in storage.credentialsSecretRef, or give "
        "the pod an identity that may reach it",
    ),
    (
        STORAGE_DENIED,
        re.compile(
            r"ACCESS_DENIED|AccessDenied|InvalidAccessKeyId|INVALID_ACCESS_KEY_ID|XAdminUserNotFound|SignatureDoesNotMatch"
            r"|SIGNATURE_DOES_NOT_MATCH|ExpiredToken|InvalidToken|no credentials for|403 Forbidden"
            r"|Status Code: 403"
        ),
        "the object store refuses the credentials for {which}, those of {whose}: check the keys, and what they may do",
    ),
    (
        STORAGE_MISSING,
        re.compile(r"NoSuchBucket|NO_SUCH_BUCKET|UnknownStoreException|specified bucket does not exist"),
        "{which} does not exist at {endpoints}: create the bucket, or correct the URI or storage.endpoint",
    ),
    (
        RUN_FAILED,
        re.compile(r"FILE_NOT_EXIST|Object at location \S+ not found"),
        "a file that the run was to read is gone: if no other run has removed it, take it back from a backup",
    ),
    (
        STORAGE_UNREACHABLE,
        re.compile(
            r"NETWORK_CONNECTION|Connection refused|UnknownHostException|dns error|[Ff]ailed to lookup address"
            r"|ConnectTimeoutException|connect timed out|[Cc]onnection reset|error sending request"
            r"|NoRouteToHostException|SSLHandshakeException|UnknownIssuer|Unable to execute HTTP request"
            r"|503 Service Unavailable|ApiCallTimeoutException|Server returned non-2xx status code"
        ),
        "the object store of {buckets} can't be reached at {endpoints}: check storage.endpoint, its certificate and "
        "the network",
    ),
)


def error_of(failure: BaseException, document: RunDocument) -> RunError:
    """The reason and the message of any failure."""
    # Before anything is cut, because a part of a secret would not be recognised.
    text = scrubbed(str(failure), secrets_of(document))
    if isinstance(failure, RunFailedError):
        return RunError(reason=failure.reason, message=clipped(printable(text)))
    reason, advice = _cause("\n".join(_texts(failure)), document)
    said = _words(type(failure).__name__, text)
    return RunError(reason=reason, message=clipped(f"{advice} ({said})" if advice else said))


def is_panic(failure: BaseException) -> bool:
    """Whether it is a panic of delta-rs, whose class is no ``Exception`` and can't be imported."""
    return type(failure).__name__ == "PanicException"


def _words(kind: str, text: str) -> str:
    """A failure in one line."""
    lines = [line.strip(" \t↳") for line in _COLOURS.sub("", text).splitlines() if line.strip(" \t↳")]
    # py4j first says which call failed; Java's message follows after a colon. Other errors begin a list with one.
    java = _said_by_java(lines)
    # The answer of an S3 server is at the very end, as XML.
    answer = _S3_ANSWER.search(text)
    said = java or _said(lines, last=answer is None)
    detail = f": {answer[1]}: {answer[2]}" if answer and answer[1] not in said else ""
    return clipped(printable(f"{kind}: {said}{detail}"))


def _said_by_java(lines: list[str]) -> str | None:
    """The first message of Java's exceptions that says something, the outermost first; None if none has one."""
    messages = [line.partition(": ")[2] for line in lines if line.startswith((": ", "Caused by: "))]
    return next((one for one in messages if not _WRAPPERS.search(one)), messages[0] if messages else None)


def _said(lines: list[str], *, last: bool) -> str:
    """The first line, and with ``last`` the last of a chain of causes."""
    if not lines:
        return ""
    first = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
    causes = [line for line in lines[1:] if not line.startswith("<")]
    return f"{first}: {causes[-1]}" if last and causes and lines[0] in _CHAINS else first


def _cause(text: str, document: RunDocument) -> tuple[str, str | None]:
    if _MEMORY.search(text):
        return OUT_OF_MEMORY, "the driver or an executor ran out of memory: give it more in spec.spark"
    if _NO_CLUSTER.search(text):
        return RUN_FAILED, "Spark could not get its pods from the Kubernetes API server"
    buckets = sorted({uri.split("/")[2] for uri in storage_uris(document)})
    for reason, signs, advice in _STORAGE:
        if (buckets or reason == RUN_FAILED) and signs.search(text):
            return reason, _about(document, advice, _named(text, buckets))
    if _LOST_JVM.search(text):
        return RUN_FAILED, "the driver's JVM ended, most often for want of memory: raise spec.spark.driver.memory"
    if not buckets and _NO_ACCESS.search(text):
        return RUN_FAILED, "this user may not read or write there: change its owner or mode, or run as another user"
    return RUN_FAILED, None


def _named(text: str, buckets: list[str]) -> list[str]:
    """The buckets that an error names; all of the run's if it names none."""
    return [one for one in buckets if re.search(rf"(?<![\w.-]){re.escape(one)}(?![\w.-])", text)] or buckets


def _about(document: RunDocument, advice: str, buckets: list[str]) -> str:
    names = ", ".join(buckets)
    which = f"bucket {names}" if len(buckets) == 1 else f"one of the buckets {names}"
    where, whose = _endpoints(document, buckets), _whose(document, buckets)
    return advice.format(buckets=names, which=which, endpoints=where, whose=whose)


def _whose(document: RunDocument, buckets: list[str]) -> str:
    """Whose credentials a run has for buckets."""
    by_secret = {entry.environment is not None for entry in document.storage if entry.bucket in buckets}
    own, secret = "the pod's identity", "the Secret in storage.credentialsSecretRef"
    return secret if by_secret == {True} else own if True not in by_secret else f"{secret}, or {own}"


def _endpoints(document: RunDocument, buckets: list[str]) -> str:
    endpoints = {entry.bucket: entry.endpoint for entry in document.storage}
    return ", ".join(sorted({endpoints.get(bucket) or "the region's own endpoint" for bucket in buckets}))


def _texts(failure: BaseException) -> Iterator[str]:
    """The failure and its causes, the outermost first."""
    seen: BaseException | None = failure
    while seen is not None:
        yield f"{type(seen).__name__}: {seen}"
        seen = seen.__cause__ or seen.__context__
