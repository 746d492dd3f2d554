"""The archive of Java classes is made once for the same Java and jars."""

from pathlib import Path

import pytest

from messagestore_jobs.driver import classes
from messagestore_jobs.session import classes_archive


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made, in a folder with one jar."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "a.jar").write_bytes(b"a")
    monkeypatch.setenv("MESSAGESTORE_JARS", str(tmp_path / "jars"))
    archives: list[str] = []

    def run_and_write(archive: Path, folder: Path) -> None:
        archives.append(f"archive {len(archives)}")
        archive.write_text(archives[-1])

    monkeypatch.setattr(classes, "_run_and_write", run_and_write)
    return archives


def test_an_archive_of_the_same_java_and_jars_stays(made: list[str]) -> None:
    classes.make()
    classes.make()
    assert made == ["archive 0"]
    assert classes_archive().read_text() == "archive 0"


@pytest.mark.parametrize("change", ["another jar", "another size", "another Java", "no archive"])
def test_the_class_archive_is_made_again_after_a_change(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    classes.make()
    match change:
        case "another jar":
            (tmp_path / "jars" / "b.jar").write_bytes(b"b")
        case "another size":
            (tmp_path / "jars" / "a.jar").write_bytes(b"abc")
        case "another Java":
            (tmp_path / "java" / "bin").mkdir(parents=True)
            (tmp_path / "java" / "bin" / "java").touch(0o755)
            (tmp_path / "java" / "release").write_text("JAVA_VERSION=99")
            monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
        case _:
            classes_archive().unlink()
    classes.make()
    assert classes_archive().read_text() == "archive 1"


def test_a_run_that_breaks_off_leaves_the_archive_as_it_is(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes.make()
    (tmp_path / "jars" / "b.jar").write_bytes(b"b")

    def breaks_off(archive: Path, folder: Path) -> None:
        archive.write_text("half")
        raise RuntimeError

    monkeypatch.setattr(classes, "_run_and_write", breaks_off)
    with pytest.raises(RuntimeError):
        classes.make()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["classes.jsa", "classes.made-from", "jars"]
    assert classes_archive().read_text() == "archive 0"


def test_a_jvm_that_writes_no_class_archive_is_no_error(
    made: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(classes, "_run_and_write", lambda archive, folder: None)
    for _ in range(2):
        classes.make()
    assert not classes_archive().exists()
    assert capsys.readouterr().out.count("this JVM wrote no archive") == 1
