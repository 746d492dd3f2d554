from pathlib import Path

from ruamel.yaml import YAML
from typer.testing import CliRunner

from messagestore_operator.api import crd
from messagestore_operator.cli.main import app
from support.resources import deleting_policy, smallest_stream

runner = CliRunner()


def _write(file: Path, document: dict) -> str:
    YAML().dump(document, file)
    return str(file)


def test_valid_manifests_are_named(tmp_path: Path) -> None:
    stream = _write(tmp_path / "stream.yaml", smallest_stream())
    policy = _write(tmp_path / "policy.yaml", deleting_policy())
    result = runner.invoke(app, ["validate", "-f", stream, "-f", policy])
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"{stream}: MessageStream/small is valid",
        f"{policy}: RetentionPolicy/invoices-30-days is valid",
    ]
    assert "warning:" in result.stderr


def test_wrong_ones_exit_with_2_and_name_nothing_as_valid(tmp_path: Path) -> None:
    good = _write(tmp_path / "good.yaml", smallest_stream())
    wrong = _write(tmp_path / "wrong.yaml", {**smallest_stream(), "spec": {}})
    result = runner.invoke(app, ["validate", "-f", good, "-f", wrong])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert [line.split(": ")[1] for line in result.stderr.splitlines()] == ["spec.table", "spec.source", "spec.trigger"]


def test_a_folder_that_no_run_can_reach_is_named(tmp_path: Path) -> None:
    stream = smallest_stream()
    stream["spec"]["table"] = {"uri": "gs://lake/small"}
    policy = deleting_policy()
    policy["spec"]["archive"] = {"uri": "abfss://lake@account.dfs.core.windows.net/archive"}
    files = [_write(tmp_path / "stream.yaml", stream), _write(tmp_path / "policy.yaml", policy)]

    result = runner.invoke(app, ["validate", *(word for file in files for word in ("-f", file))])

    assert (result.exit_code, result.stdout) == (2, "")
    told = [line.partition(": ")[2] for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    only = "this release reaches object stores by the S3 protocol only: s3a:// or s3://"
    assert told == [f"spec.table.uri: {only}", f"spec.archive.uri: {only}"]


def test_crds_prints_the_three_definitions() -> None:
    documents = list(YAML(typ="safe").load_all(runner.invoke(app, ["crds"]).stdout))
    assert documents == [crd.custom_resource_definition(kind) for kind in crd.NAMES]


def test_crds_writes_files_where_it_is_told(tmp_path: Path) -> None:
    assert runner.invoke(app, ["crds", "--output", str(tmp_path)]).exit_code == 0
    assert {file.name: file.read_text() for file in tmp_path.iterdir()} == crd.files()
    file = tmp_path / "messagestreams.yaml"
    refused = runner.invoke(app, ["crds", "--output", str(file)])
    assert (refused.exit_code, refused.stderr) == (1, f"error: {file} can't be written: File exists\n")


def test_help_names_the_commands() -> None:
    text = runner.invoke(app, ["--help"]).stdout
    assert "validate" in text
    assert "crds" in text


def test_the_version_is_printed() -> None:
    assert runner.invoke(app, ["--version"]).stdout.startswith("messagestore 0.")
