"""Keys are only in the environment and in the Secret that they come from."""

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from messagestore_core.store.handle import Store
from messagestore_core.store.tombstones import tombstone_key
from support.ingests import Stream
from support.keyed_runs import SCRUB, SEAL
from support.waiting import scaled

KEYS = {SEAL: "the key of seals: é", SCRUB: "the key that values are hashed with"}
TESTS = Path(__file__).parents[2]


@pytest.mark.long
def test_no_key_is_in_a_plan_a_setting_a_log_or_the_event_log(tmp_path: Path) -> None:
    environment = {**os.environ, **KEYS, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-m", "support.keyed_runs", str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, timeout=scaled(600), check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-5000:].decode(errors="replace")
    _were_protected(said.decode(errors="replace"))
    events = [path for path in (tmp_path / "events").rglob("*") if path.is_file()]
    told = said + b"".join(path.read_bytes() for path in events)
    buried = tombstone_key(Store(Stream(None, tmp_path).table.uri))
    assert buried is not None
    for key in (*(value.encode() for value in KEYS.values()), buried):
        assert [form for form in _forms(key) if form in told] == []
    # The search works: it finds the variables' names.
    logged = b"".join(path.read_bytes() for path in events)
    assert [name for name in KEYS if name.encode() not in logged] == []


def _were_protected(said: str) -> None:
    """Check that authentication and encryption were on, although settings had turned them off."""
    assert "\nspark.authenticate=true" in said
    assert "\nspark.network.crypto.enabled=true" in said
    assert "\nspark.io.encryption.enabled=true" in said


def _forms(key: bytes) -> list[bytes]:
    """A key as it is, in hex and in base64."""
    escaped = key.decode(errors="replace").encode("ascii", errors="backslashreplace")
    return [key, escaped, key.hex().encode(), key.hex().upper().encode(), base64.b64encode(key).rstrip(b"=")]
