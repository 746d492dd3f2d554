"""The command `operator`, as far as it needs no cluster."""

from pathlib import Path

from typer.testing import CliRunner

from messagestore_operator.cli.main import app


def test_the_operator_does_not_start_without_an_image_for_runs(tmp_path: Path) -> None:
    """A default would be a name in the public registry, which anybody may own."""
    settings = tmp_path / "settings.yaml"
    settings.write_text("workers: 2\n")
    done = CliRunner().invoke(app, ["operator", "--settings", str(settings)])
    assert (done.exit_code, "error: spark.image: must name the image of driver and executors" in done.output) == (
        2,
        True,
    )
