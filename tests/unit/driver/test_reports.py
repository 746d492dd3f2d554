"""What a driver reports and reads: limited in size, without secrets, and whether or not the API answers."""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

import pytest

from messagestore_core.contract.base import RunError
from messagestore_core.contract.ingest import IngestCounts, IngestOutcome, IngestTask, Lag, Upkeep, UpkeepDone
from messagestore_core.contract.purge import Preview, PurgeOutcome
from messagestore_core.contract.records import FilesSource, KafkaCluster, KafkaSource
from messagestore_core.contract.replay import DestinationState, FrozenSelection, ReplayOutcome, ReplayProgress
from messagestore_core.contract.run_document import MaintainTask, Resource, RunDocument
from messagestore_core.contract.run_report import ExecutorsRefused, MaintainOutcome, RunProgress, RunReport
from messagestore_core.contract.stores import CredentialVariables, Owner, StorageEntry, Table, TableState
from messagestore_core.store.errors import RunFailedError
from messagestore_jobs.driver import reporting as reporting_module
from messagestore_jobs.driver.control import Commands, Maintenance, RunControl, Steps, read_commands
from messagestore_jobs.driver.failures import error_of
from messagestore_jobs.driver.reporting import (
    REPORT_BYTES,
    TERMINATION_BYTES,
    ConfigMapGoneError,
    Reporting,
    Tracker,
    report_text,
    units_of,
)
from messagestore_jobs.driver.secrets import scrubbed, secrets_of

NOW = datetime(2026, 4, 6, tzinfo=UTC)
STATE = TableState(version=1, messages=0, dead_letters=0, bytes=0)


def document(uri: str = "s3a://lake/orders") -> RunDocument:
    names = CredentialVariables(access_key="TEST_ACCESS_KEY", secret_key="TEST_SECRET_KEY")
    return RunDocument(
        run="run-1",
        resource=Resource(kind="MessageStream", namespace="default", name="orders"),
        table=Table(uri=uri, owner=Owner(namespace="default", name="orders")),
        storage=(StorageEntry(bucket="lake", environment=names),),
        task=IngestTask(source_id="s", source=FilesSource(uri=uri.replace("orders", "landing"))),
    )


def report(**fields: object) -> RunReport:
    return RunReport.model_validate({"run": "run-1", "sequence": 1, "state": "Running", "started_at": NOW, **fields})


def ingested() -> IngestOutcome:
    counts = IngestCounts()
    return IngestOutcome(counts=counts, totals=counts, batches=0, table=STATE, lag=Lag(as_of=NOW))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", "StorageDenied"),
        ("403 Forbidden <Code>SignatureDoesNotMatch</Code>", "StorageDenied"),
        ("org.apache.hadoop.fs.s3a.auth.NoAuthWithAWSException: No AWS Credentials provided", "StorageDenied"),
        # The answer of the S3 server versitygw to an unknown access key.
        ("404 Not Found <Code>XAdminUserNotFound</Code>", "StorageDenied"),
        ("404 Not Found <Code>NoSuchBucket</Code>", "StorageMissing"),
        ("curlCode: 7, Could not connect to server: AWS Error NETWORK_CONNECTION", "StorageUnreachable"),
        ("dns error: failed to lookup address information", "StorageUnreachable"),
        ("java.lang.OutOfMemoryError: Java heap space", "OutOfMemory"),
        ("division by zero", "RunFailed"),
        ("Operation not supported\n ↳ no credentials found in chain. Attempted:\n  Environment", "StorageDenied"),
        ("Generic S3 error\n ↳ Server returned non-2xx status code\n ↳ 404 Not Found", "StorageUnreachable"),
    ],
)
def test_each_cause_of_an_error_has_its_reason(text: str, reason: str) -> None:
    found = error_of(OSError(text), document())
    assert found.reason == reason
    assert ("lake" in found.message) == reason.startswith("Storage")


def test_a_cause_further_down_counts() -> None:
    failure = ValueError("the batch failed")
    failure.__cause__ = OSError("Connection refused")
    assert error_of(failure, document()).reason == "StorageUnreachable"


def test_an_endpoint_that_does_not_answer_is_named_and_so_is_the_last_cause() -> None:
    far = StorageEntry(bucket="lake", endpoint="http://minio:9000")
    chain = "Generic S3 error\n ↳ Error performing list request\n ↳ dns error\n ↳ Name or service not known\n"
    error = error_of(OSError(chain), document().model_copy(update={"storage": (far,)}))
    assert error.reason == "StorageUnreachable"
    assert "the object store of lake can't be reached at http://minio:9000: check" in error.message
    assert error.message.endswith("(OSError: Generic S3 error: Name or service not known)")


def test_an_api_server_that_does_not_answer_is_no_object_store() -> None:
    failure = RuntimeError(
        ": org.apache.spark.SparkException: External scheduler cannot be instantiated\n"
        "Caused by: io.fabric8.kubernetes.client.KubernetesClientException: Operation: [get]  failed.\n"
        "Caused by: java.io.IOException: Connection refused: kubernetes.default.svc/10.96.0.1:443"
    )
    error = error_of(failure, document())
    assert error.reason == "RunFailed"
    assert error.message == (
        "Spark could not get its pods from the Kubernetes API server (RuntimeError: "
        "io.fabric8.kubernetes.client.KubernetesClientException: Operation: [get]  failed.)"
    )


@pytest.mark.parametrize(
    "text",
    [
        ": org.apache.spark.SparkException: Exception thrown in awaitResult: \n\tat org.apache.spark.util\n"
        "Caused by: org.apache.spark.SparkException: [FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading "
        "file s3a://lake/orders/messages/part-1.parquet. File does not exist.\n"
        "Caused by: java.io.FileNotFoundException: No such file or directory: s3a://lake/orders/messages/part-1.parquet",
        "Object at location orders/messages/part-1.parquet not found: Server returned non-2xx status code: 404",
    ],
)
@pytest.mark.parametrize("uri", ["s3a://lake/orders", "file:///lake/orders"])
def test_a_file_of_a_table_that_is_gone_is_named(text: str, uri: str) -> None:
    error = error_of(OSError(text), document(uri))
    assert error.reason == "RunFailed"
    assert error.message.startswith("a file that the run was to read is gone: ")
    assert "orders/messages/part-1.parquet" in error.message


def two_buckets() -> RunDocument:
    """A run with keys for bucket lake, and with the pod's identity for bucket landing."""
    found = document()
    task = found.task.model_copy(update={"source": FilesSource(uri="s3a://landing/orders")})
    storage = (*found.storage, StorageEntry(bucket="landing", endpoint="http://minio:9000"))
    return found.model_copy(update={"task": task, "storage": storage})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "403 Forbidden at s3://lake/orders",
            "refuses the credentials for bucket lake, those of the Secret in storage.credentialsSecretRef: check",
        ),
        (
            "403 Forbidden at s3://landing",
            "refuses the credentials for bucket landing, those of the pod's identity: check",
        ),
        (
            "403 Forbidden",
            "for one of the buckets lake, landing, those of the Secret in storage.credentialsSecretRef, or ",
        ),
        (
            "NoSuchBucket: http://minio:9000/landing?list-type=2",
            "bucket landing does not exist at http://minio:9000: create",
        ),
        ("NoSuchBucket: https://landing.example.org/lake", "bucket lake does not exist at the region's own endpoint: "),
    ],
)
def test_an_error_of_a_bucket_names_that_bucket_and_whose_credentials_it_has(text: str, words: str) -> None:
    assert words in error_of(OSError(text), two_buckets()).message


@pytest.mark.parametrize(
    "refused",
    [
        OSError("java.nio.file.AccessDeniedException: /data/orders"),
        PermissionError(13, "Permission denied", "/data/orders"),
    ],
)
def test_a_folder_of_this_machine_is_no_object_store_and_belongs_to_somebody(refused: OSError) -> None:
    error = error_of(refused, document("file:///data/orders"))
    assert error.reason == "RunFailed"
    assert error.message.startswith(
        "this user may not read or write there: change its owner or mode, or run as another"
    )
    assert "/data/orders" in error.message


def test_a_run_that_says_why_it_failed_is_believed() -> None:
    error = error_of(RunFailedError("TableRefused", "not yours"), document())
    assert (error.reason, error.message) == ("TableRefused", "not yours")


def test_an_error_of_java_is_reported_in_one_line() -> None:
    text = "An error occurred while calling o1.load.\n: java.io.IOException: broken\n\tat a.b.C(C.java)"
    assert error_of(OSError(text), document()).message == "OSError: java.io.IOException: broken"


def test_an_error_of_an_s3_server_is_reported_with_its_answer() -> None:
    text = (
        "Generic S3 error\n ↳ 400 Bad Request\n ↳ <Error><Code>Strange</Code><Message>Try the door.</Message></Error>"
    )
    assert error_of(OSError(text), document()).message == "OSError: Generic S3 error: Strange: Try the door."


def test_secrets_of_the_environment_are_scrubbed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_ACCESS_KEY", "AKIA123")
    monkeypatch.setenv("TEST_SECRET_KEY", "AKIA123/and-more\n")
    secrets = secrets_of(document())
    assert scrubbed("key AKIA123/and-more of AKIA123 refused", secrets) == "key … of … refused"
    told = report_text(
        report(
            state="Failed",
            error=RunError(reason="RunFailed", message="AKIA123 refused"),
            progress=RunProgress(step="ingest", text="trying AKIA123"),
        ),
        secrets,
    )
    assert "AKIA123" not in told


SECRET = "wJalr XUtn/FEMI+K7MDENG&bPx=é<RfiCY"
SPELLINGS: dict[str, Callable[[str], str]] = {
    "URL": lambda text: quote(text, safe=""),
    "URL in small letters": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "path": quote,
    "form": quote_plus,
    "JSON": lambda text: json.dumps(text).replace("/", r"\/"),
    "XML": lambda text: escape(text),
    "base64": lambda text: b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: urlsafe_b64encode(text.encode()).decode(),
    "header of one's login": lambda text: b64encode(f"u:{text}".encode()).decode(),
    "of another's": lambda text: b64encode(f"user:{text}@".encode()).decode(),
    "base64 in a URL": lambda text: quote(b64encode(text.encode()).decode(), safe=""),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_secrets_are_scrubbed_however_they_are_written(spelling: str) -> None:
    written = SPELLINGS[spelling](SECRET)
    left = scrubbed(f"GET /?key={written} refused", {SECRET})
    # The first characters may be of what precedes it.
    pieces = {written[start : start + 6] for start in range(7, len(written) - 5)}
    assert left.endswith(" refused")
    assert not [piece for piece in pieces if piece in left]


def test_secrets_are_scrubbed_from_what_the_api_server_says_of_executors() -> None:
    refused = ExecutorsRefused(since=NOW, message="AKIA123 exceeds a quota")
    told = json.loads(report_text(report(executors_refused=refused), ["AKIA123"]))
    assert told["executorsRefused"]["message"] == "… exceeds a quota"


def test_a_short_secret_takes_nothing_else_with_it() -> None:
    assert scrubbed("a b%20c eW91 pass", {"you"}) == "a b%20c eW91 pass"


def test_a_secret_is_scrubbed_before_a_message_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_SECRET_KEY", "k" * 40)
    for kind in (OSError, lambda text: RunFailedError("TableRefused", text)):
        assert "kkk" not in error_of(kind("x" * 980 + "k" * 40), document()).message


@pytest.mark.parametrize(
    "text",
    [
        'java.lang.NumberFormatException: For input string: "CARD"',
        "java.time.format.DateTimeParseException: Text 'CARD' could not be parsed at index 0",
        "java.time.DateTimeException: Invalid date 'CARD'",
        "java.net.URISyntaxException: Illegal character in path at index 3: CARD",
        "com.fasterxml.jackson.core.JsonParseException: Unexpected 'CARD'\n at [Source: (byte[])'CARD'; line: 1]",
        "org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'CARD' of the type \"STRING\" "
        'cannot be cast to "INT" because it is malformed. SQLSTATE: 22018',
        "org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are "
        'detected in record parsing: {"a":\n"CARD"}\nParse Mode: FAILFAST. SQLSTATE: 22023',
    ],
)
def test_values_of_records_in_errors_of_java_are_not_told(text: str) -> None:
    name = re.split(r"[:\[]", text)[0]
    for said in (text, f"An error occurred while calling o1.save.\n: {text}\n\tat a.b.C(C.java)\n"):
        message = error_of(OSError(said), document()).message
        assert name in message
        assert "CARD" not in message + scrubbed(said, ())
    if "SQLSTATE" in text:
        assert "SQLSTATE: 22" in message


def test_other_errors_of_spark_are_told_whole() -> None:
    text = "[TABLE_OR_VIEW_NOT_FOUND] The table `messages` cannot be found. SQLSTATE: 42P01"
    assert error_of(OSError(text), document()).message == f"OSError: {text}"


def test_a_failure_has_nothing_for_a_terminal_to_interpret() -> None:
    text = "a\x1b[31mred\x1b]0;title\x07\x9b2J\u202eb"
    for failure in (OSError(text), RunFailedError("TableRefused", text)):
        assert error_of(failure, document()).message.isprintable()
    told = report(
        state="Failed",
        error=RunError(reason="RunFailed", message=text),
        progress=RunProgress(step="ingest", text=text),
    )
    read = RunReport.model_validate_json(report_text(told, ()))
    assert read.error.message.isprintable()
    assert (read.progress.text or "").isprintable()


@pytest.mark.parametrize(("limit", "place"), [(REPORT_BYTES, 64 * 1024), (TERMINATION_BYTES, 4096)])
def test_a_report_never_outgrows_its_place(limit: int, place: int) -> None:
    preview = Preview(
        id="p", table_version=1, as_of=NOW, messages=1, bytes=1, by_rule={"é" * 90 + str(n): n for n in range(999)}
    )
    long = report(
        outcome=PurgeOutcome(preview=preview, table=STATE),
        progress=RunProgress(step="ingest", text="é" * 99999),
        error=RunError(reason="RunFailed", message="é" * 99999),
    )
    text = report_text(long, (), limit)
    assert len(text.encode()) <= limit <= place
    read = RunReport.model_validate_json(text)
    assert read.error.reason == "RunFailed"


def test_errors_of_destinations_are_scrubbed_and_shortened_before_they_are_dropped() -> None:
    states = tuple(
        DestinationState(name=f"d{n}", error=RunError(reason="RunFailed", message="secret " + "é" * 999))
        for n in range(6)
    )
    nothing = FrozenSelection(table_version=1, messages=0, bytes=0)
    told = report(outcome=ReplayOutcome(selection=nothing, progress=ReplayProgress(), destinations=states))
    for limit, longest in ((REPORT_BYTES, 1000), (TERMINATION_BYTES, 100)):
        read = RunReport.model_validate_json(report_text(told, {"secret"}, limit))
        said = [one.error.message for one in read.outcome.destinations if one.error is not None]
        assert (len(said), {len(one) for one in said}) == (6, {longest})
        assert all(one.startswith("… é") for one in said)


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        (None, Commands()),
        ("no json", Commands()),
        ("[]", Commands()),
        ('{"stop": true}', Commands(stop=True)),
        ('{"stop": "yes"}', Commands()),
        ('{"stop": false, "messagesPerSecond": null}', Commands(paced=True)),
        ('{"messagesPerSecond": 12.5}', Commands(paced=True, messages_per_second=12.5)),
        ('{"messagesPerSecond": true}', Commands()),
        ('{"messagesPerSecond": -1}', Commands()),
        ('{"maintain": {"asked": 7}}', Commands(maintain=Upkeep(request_id=7))),
        ('{"maintain": {"asked": "much"}}', Commands()),
    ],
)
def test_commands_are_read_from_their_text(text: str | None, commands: Commands) -> None:
    assert read_commands(text) == commands


def test_progress_counts_within_a_step() -> None:
    tracker = Tracker()
    tracker.step("ingest", 10)
    tracker.advance(3)
    tracker.advance(4)
    tracker.say("one file is gone")
    assert tracker.progress == RunProgress(step="ingest", done=7, total=10, text="one file is gone")
    tracker.step("audit")
    assert tracker.progress == RunProgress(step="audit", text="one file is gone")


def test_progress_says_what_it_counts() -> None:
    files = document()
    kafka = KafkaSource(cluster=KafkaCluster(bootstrap_servers="kafka:9092"), topics=("orders",))
    topic = files.model_copy(update={"task": IngestTask(source_id="s", source=kafka)})
    units = []
    for one, step in ((files, "ingest"), (topic, "ingest"), (files, "compact"), (files, "open")):
        tracker = Tracker(units_of(one))
        tracker.step(step, 5396)
        units.append(tracker.progress.unit)
    assert units == ["bytes", "records", "days", None]


def test_the_seconds_of_a_step_are_summed_over_its_turns() -> None:
    clock = [0.0]
    tracker = Tracker(clock=lambda: clock[0])
    for clock[0], step in ((2.0, "open"), (5.0, "ingest"), (6.0, "updates"), (8.0, "ingest")):
        tracker.step(step)
    clock[0] = 12.0
    assert tracker.seconds() == {"start": 2.0, "open": 3.0, "ingest": 5.0, "updates": 2.0}


def test_a_run_obeys_commands_to_stop_and_to_change_its_rate_and_reports() -> None:
    clock = iter((0.0, 0.0, 1.0, 3.9, 4.0, 4.0))
    control = RunControl(5.0, lambda: next(clock))
    assert (control.stopped(timedelta(0)), control.suspended(), control.messages_per_second()) == (False, False, 5.0)
    told: list[int] = []

    def tell() -> IngestOutcome:
        told.append(len(told))
        return ingested()

    for _ in range(4):
        control.taken_in(tell)
    assert len(told) == 2
    control.limit(None)
    control.stop()
    assert (control.stopped(timedelta(hours=1)), control.suspended(), control.messages_per_second()) == (
        True,
        True,
        None,
    )


def _steps(failure: Exception | None = None) -> Steps:
    yield
    if failure is not None:
        raise failure
    yield
    return MaintainOutcome(**dict.fromkeys(_SIZES, 0), table=STATE)


_SIZES = [f"{what}_{when}" for what in ("files", "bytes", "table_version") for when in ("before", "after")]


@pytest.mark.parametrize("failure", [None, OSError("no room")])
def test_maintenance_within_a_run_is_done_step_by_step_once_for_each_wish(failure: Exception | None) -> None:
    begun: list[MaintainTask] = []

    def begin(task: MaintainTask) -> Steps:
        begun.append(task)
        return _steps(failure)

    control = RunControl(None)
    control.maintain_by(Maintenance(begin, lambda error: RunError(reason="RunFailed", message=str(error))))
    control.between_batches()
    found = []
    control.maintain(Upkeep(request_id=7, oldest_replay=NOW))
    for _ in range(5):
        control.between_batches()
        found.append(control.with_upkeep(ingested()).upkeep)
    expected = UpkeepDone(request_id=7, error=RunError(reason="RunFailed", message="no room"))
    if failure is None:
        expected = UpkeepDone(request_id=7, table_version=STATE.version, small_files=STATE.small_files)
    assert found == [None] * (2 if failure is None else 1) + [expected] * (3 if failure is None else 4)
    assert begun == [MaintainTask(oldest_replay=NOW)]
    control.maintain(Upkeep(request_id=8))
    control.stop()
    control.between_batches()
    assert len(begun) == 1


class Board:
    """Stands in for the API: each answer is the ConfigMap's data, or an error."""

    def __init__(self, *answers: dict[str, str] | Exception) -> None:
        self.answers = list(answers)
        self.written: list[RunReport] = []
        self.reads = 0

    def read(self) -> dict[str, str]:
        self.reads += 1
        return self._answer()

    def write_report(self, text: str) -> dict[str, str]:
        answer = self._answer()
        self.written.append(RunReport.model_validate_json(text))
        return answer

    def _answer(self) -> dict[str, str]:
        answer = self.answers.pop(0) if self.answers else {}
        if isinstance(answer, Exception):
            raise answer
        return answer


def reporting(board: Board, state: Callable[[], RunReport], heard: list[Commands]) -> Reporting:
    return Reporting(board, state, lambda told: report_text(told, ()), heard.append, 3600)


def test_only_what_has_changed_is_written_and_commands_are_heard_either_way() -> None:
    board, heard = Board({}, {"control.json": '{"stop": true}'}, {}), list[Commands]()
    states = iter([report(), report(), report(progress=RunProgress(step="ingest"))])
    one = reporting(board, lambda: next(states), heard)
    for _ in range(3):
        one._report()
    assert [told.sequence for told in board.written] == [1, 2]
    assert board.reads == 1
    assert [commands.stop for commands in heard] == [False, True, False]


def test_the_last_report_is_tried_again_and_has_the_highest_sequence() -> None:
    board = Board(OSError("down"), {}, OSError("down"), {})
    one = reporting(board, report, [])
    one._report()
    one._report()
    one._thread = _Ended()
    last = one.finish(report(state="Succeeded"), 5)
    assert [told.state for told in board.written] == ["Running", "Succeeded"]
    assert board.written[-1].sequence == last.sequence == 3


def test_the_last_report_is_tried_no_longer_than_told_though_a_report_is_still_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]

    def passes(seconds: float) -> None:
        clock[0] += seconds

    monkeypatch.setattr(reporting_module, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=passes))
    one = reporting(Board(*[OSError("down")] * 99), report, [])
    one._thread = SimpleNamespace(join=passes)
    one.finish(report(state="Succeeded"), 8)
    assert clock == [8.0]


def test_no_report_is_written_once_the_config_map_is_gone() -> None:
    board = Board(ConfigMapGoneError("default/run-1"))
    one = reporting(board, report, [])
    one._report()
    one._thread = _Ended()
    one.finish(report(state="Succeeded"), 5)
    assert board.written == []


class _Ended:
    def join(self, seconds: float) -> None:
        """It has ended."""
