"""Python packages of images are those of the lock file."""

from pathlib import Path

import pytest
from hack import images


def test_packages_that_were_not_installed_whole_are_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = list[str]()
    monkeypatch.setattr(images, "REPOSITORY", tmp_path)
    monkeypatch.setattr(images, "_uv", lambda: "uv")
    monkeypatch.setattr(images, "run", lambda command: installed.append(command[-1].read_text()))
    lock, folder = tmp_path / "requirements.lock", tmp_path / "site"
    lock.write_text("before")
    images._install_packages(lock, folder)
    images._install_packages(lock, folder)
    assert installed == ["before"]

    with monkeypatch.context() as broken:
        broken.setattr(images, "run", _broken)
        lock.write_text("after")
        with pytest.raises(SystemExit):
            images._install_packages(lock, folder)
    lock.write_text("before")
    images._install_packages(lock, folder)
    assert installed == ["before", "before"]


def _broken(command: object) -> str:
    raise SystemExit(f"broken off: {command}")
