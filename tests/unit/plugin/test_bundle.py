"""What leaves a cluster in a report has no secrets, wherever they were written."""

import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from messagestore_operator.plugin import bundle
from messagestore_operator.plugin.kubectl import Kubectl, KubectlError
from messagestore_operator.plugin.main import app
from messagestore_operator.plugin.report import collected, write

SECRET = "s3cr3t-0815"


@pytest.mark.parametrize(
    "line",
    [
        f"spark.hadoop.fs.s3a.secret.key={SECRET}",
        f"fs.s3a.access.key = {SECRET}, next",
        f'"password": "{SECRET} of two words"',
        f"Authorization: Bearer {SECRET}",
        f"authorization=ApiKey {SECRET}",
        f"curl -H 'X-Auth: Bearer {SECRET}'",
        f"https://user:{SECRET}@broker.example.org/path",
        f"sessionToken: {SECRET}",
        f"client-credentials={SECRET}",
        f'{{"message": "refused: password=\\"{SECRET}\\" of vera"}}',
        f'{{"message": "{{\\"password\\": \\"{SECRET}\\"}}"}}',
        f'"password": "of\\"{SECRET}"',
        f'password="{SECRET} of two wo',
    ],
)
def test_a_line_of_a_log_loses_what_is_secret(line: str) -> None:
    assert SECRET not in bundle.scrubbed_text(line)
    assert bundle.LEFT_OUT in bundle.scrubbed_text(line)


def test_keys_and_tokens_are_known_by_their_form() -> None:
    for secret in ("AKIAABCDEFGHIJKLMNOP", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"):
        assert secret not in bundle.scrubbed_text(f"refused {secret} for the bucket")


@pytest.mark.parametrize(
    "line",
    [
        "INFO resources state changed kind=MessageStream name=orders from=Pending to=Running reason=SecretMissing",
        "the Secret lake-access isn't there; s3a://lake/orders, see https://example.org/docs",
        "tenancy:\n  secrets:\n    requireLabel: true\n",
    ],
)
def test_other_lines_stay_as_they_are(line: str) -> None:
    assert bundle.scrubbed_text(line) == line


def test_a_resource_keeps_references_to_secrets_and_loses_what_others_noted() -> None:
    notes = {"messagestore.dev/run-requested": "now", "kubectl.kubernetes.io/last-applied-configuration": SECRET}
    spec = {
        "storage": {"credentialsSecretRef": {"name": "lake-access"}, "caSecretRef": {"name": "ca", "key": "ca.crt"}},
        "spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.sql.shuffle.partitions": "8"}},
    }
    about = {"name": "orders", "namespace": "shop", "annotations": notes, "managedFields": [SECRET]}
    shown = bundle.resource({"kind": "MessageStream", "metadata": about, "spec": spec})
    assert SECRET not in json.dumps(shown)
    assert shown["spec"]["storage"] == spec["storage"]
    assert shown["spec"]["spark"]["conf"]["spark.sql.shuffle.partitions"] == "8"
    assert shown["metadata"]["annotations"] == {"messagestore.dev/run-requested": "now"}


def test_of_a_pod_and_an_application_only_the_state_stays() -> None:
    container = {"name": "driver", "image": "spark:1", "env": [{"name": "A", "value": SECRET}], "args": [SECRET]}
    about = {"name": "run-1-driver", "namespace": "shop", "annotations": {"note": SECRET}}
    pod = {"kind": "Pod", "metadata": about, "spec": {"containers": [container]}, "status": {"phase": "Running"}}
    shown = bundle.pod(pod)
    assert SECRET not in json.dumps(shown)
    assert (shown["spec"]["containers"][0]["image"], shown["status"]) == ("spark:1", {"phase": "Running"})
    application = {"kind": "SparkApplication", "metadata": about, "spec": {"sparkConf": {"a": SECRET}}, "status": {}}
    assert SECRET not in json.dumps(bundle.application(application))


class Answers(Kubectl):
    """A cluster with one driver, whose log has a secret, and nothing else that may be read."""

    def items(self, plurals: str, selector: str = "") -> list[dict[str, Any]]:
        if plurals == "pods" and "managed-by" in selector:
            return [{"kind": "Pod", "metadata": {"name": "run-1-driver", "namespace": "shop"}}]
        raise KubectlError("Forbidden", f"{plurals} is forbidden")

    def run(self, *arguments: str, stdin: str | None = None) -> str:
        if arguments[0] == "logs":
            return f"begins\npassword={SECRET}\n"
        return "{}" if arguments[0] == "version" else ""


def test_a_report_has_logs_if_asked_for_and_names_what_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("messagestore_operator.plugin.report.Kubectl", Answers)
    problems: list[str] = []
    parts = dict(collected(Answers("shop"), Answers("messagestore"), problems, logs=True))
    assert parts["shop/logs/run-1-driver.log"] == f"begins\npassword={bundle.LEFT_OUT}\n"
    assert len(problems) == 7
    assert "the operator's settings: configmaps is forbidden" in problems
    assert "shop/logs/run-1-driver.log" not in dict(collected(Answers("shop"), Answers(), [], logs=False))


def test_only_the_owner_reads_the_file(tmp_path: Path) -> None:
    target = tmp_path / "report.tar.gz"
    write(target, "report", [("shop/a.json", "{}\n")], datetime(2026, 1, 5, tzinfo=UTC))
    assert target.stat().st_mode & 0o777 == 0o600
    with tarfile.open(target) as archive:
        assert [(one.name, one.mode) for one in archive.getmembers()] == [("report/shop/a.json", 0o600)]


def test_a_file_that_can_not_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "gone" / "report.tar.gz"
    with pytest.raises(typer.Exit) as ended:
        write(target, "report", [], datetime(2026, 1, 5, tzinfo=UTC))
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == f"error: {target} can't be written: No such file or directory\n"


def test_a_file_that_can_have_no_such_name_is_told_before_anything_is_read(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["report", "--file", str(tmp_path / ("a" * 300))])
    assert result.exit_code == 1
    assert result.stderr.endswith("can't be written: File name too long\n")
