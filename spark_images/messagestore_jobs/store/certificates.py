"""Certificate authorities that a run trusts beside the well-known ones."""

import os
import ssl
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from messagestore_jobs.store.errors import RunFailedError

_VARIABLE = "SSL_CERT_FILE"
"""delta-rs knows no other way: the file is all that it trusts."""


@contextmanager
def trusting(files: Sequence[str]) -> Iterator[str | None]:
    """Trust the authorities in these PEM files too; yields one file with all that is trusted, None without any.

    Raises:
        RunFailedError: a file can't be read.
    """
    if not files:
        yield None
        return
    before = os.environ.get(_VARIABLE)
    with tempfile.TemporaryDirectory(prefix="messagestore-") as folder:
        bundle = Path(folder) / "trusted.pem"
        bundle.write_text("\n".join([_well_known(before), *(_read(file) for file in dict.fromkeys(files))]))
        os.environ[_VARIABLE] = str(bundle)
        try:
            yield str(bundle)
        finally:
            del os.environ[_VARIABLE]
            if before is not None:
                os.environ[_VARIABLE] = before


def _well_known(chosen: str | None) -> str:
    file = chosen or ssl.get_default_verify_paths().cafile
    return Path(file).read_text() if file and Path(file).is_file() else ""


def _read(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise RunFailedError(
            "StorageUnreachable", f"the certificate authority {file} can't be read; check the Secret of caSecretRef"
        ) from error
