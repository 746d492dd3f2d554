"""Trust in certificate authorities, which delta-rs takes from the environment of the whole process."""

import os
import ssl
from contextlib import ExitStack
from pathlib import Path

import pytest

from messagestore_core.contract.stores import StorageEntry
from messagestore_core.store.errors import RunFailedError
from messagestore_core.store.storage import trusting

SETTING = "SSL_CERT_FILE"


def entry(folder: Path, name: str) -> StorageEntry:
    file = folder / f"{name}.pem"
    file.write_text(f"certificate of {name}\n")
    return StorageEntry(bucket=name, ca_file=str(file))


def trusted() -> str:
    """What the process trusts now."""
    return Path(os.environ.get(SETTING) or ssl.get_default_verify_paths().cafile or os.devnull).read_text()


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first first", "last first"])
@pytest.mark.parametrize("before", [None, "usual"])
def test_two_trusted_authorities_can_be_closed_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None, order: tuple[int, int]
) -> None:
    if before is None:
        monkeypatch.delenv(SETTING, raising=False)
    else:
        monkeypatch.setenv(SETTING, entry(tmp_path, before).ca_file or "")
    usual, setting = trusted(), os.environ.get(SETTING)
    names, held = ("one", "other"), [ExitStack(), ExitStack()]
    for stack, name in zip(held, names, strict=True):
        stack.enter_context(trusting([entry(tmp_path, name)]))
    assert usual in trusted()
    assert all(f"certificate of {name}" in trusted() for name in names)
    first, last = order
    held[first].close()
    assert usual in trusted()
    assert f"certificate of {names[last]}" in trusted()
    held[last].close()
    assert os.environ.get(SETTING) == setting


def test_a_connection_of_pyarrow_trusts_the_authority_of_its_own_bucket_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SETTING, entry(tmp_path, "usual").ca_file or "")
    one, other, later = (entry(tmp_path, name) for name in ("one", "other", "later"))
    with trusting([one, other]) as bundles, trusting([later]) as of_later:
        files = {file: Path(path).read_text().split("\n") for file, path in {**bundles, **of_later}.items()}
    assert files == {
        str(each.ca_file): ["certificate of usual", "", f"certificate of {each.bucket}", ""]
        for each in (one, other, later)
    }


def test_a_file_that_cannot_be_read_changes_nothing(tmp_path: Path) -> None:
    before = os.environ.get(SETTING)
    missing = StorageEntry(bucket="b", ca_file=f"{tmp_path}/no")
    with pytest.raises(RunFailedError, match="can't be read"), trusting([missing]):
        pass
    assert os.environ.get(SETTING) == before
