"""The commands of the pages that name the reader's own store or manifests, which are the test's here.

Those that repair a store always run, all others with MESSAGESTORE_DOCUMENTS=all.
"""

import os
from pathlib import Path

import pytest
import yaml

from messagestore_core.store.handle import Store
from support.documents import RUN_WITH_OTHER_NAMES, commands, run_script, run_until
from support.local_runs import arrive, policy, record, stream
from support.stores import START, add_dead_letters, make_store, message

PAGES = list(RUN_WITH_OTHER_NAMES) if os.environ.get("MESSAGESTORE_DOCUMENTS") == "all" else ["docs/recovery.md"]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_do_what_the_page_says(page: str, tmp_path: Path) -> None:
    does = {
        "docs/reading.md": _reads_a_store,
        "docs/local-runs.md": _runs_manifests,
        "docs/recovery.md": _repairs_a_store,
    }
    does[page]([one for heading in RUN_WITH_OTHER_NAMES[page] for one in commands(page, heading)], tmp_path)


def _reads_a_store(lines: list[str], folder: Path) -> None:
    messages = [
        message(1, stream_name="order-123", position=0),
        message(499, stream_name="order-7", position=0),
        message(500, stream_name="order-123", position=1),
        message(501, stream_name="cart-1", position=0),
    ]
    uri = make_store(folder / "orders", messages).uri
    letters = [{"raw": b"{", "failed_at": START}, {"raw": b"x", "failed_at": START, "reason": "InvalidField"}]
    add_dead_letters(uri, letters)

    told = {
        line: _run(line, folder)
        for line in (line.replace("s3a://lake/orders", uri).replace("4d1a…", "m499") for line in lines)
        # Those that act need a message that has failed; tests/unit/cli has them.
        if "--updates" not in line and " tail " not in line
    }
    (tail,) = (line.replace("s3a://lake/orders", uri) for line in lines if " tail " in line)

    def of(words: str) -> str:
        (output,) = (output for line, output in told.items() if line.split("#")[0].strip().endswith(words))
        return output

    assert _first_words(of(" order-123")) == ["GLOBAL", "1", "500"]
    assert _first_words(of(" --position 500")) == ["GLOBAL", "500"]
    assert _first_words(run_until('{"n":500}', tail, folder)) == ["GLOBAL", "1", "499", "500"]
    assert "1 InvalidField, 1 Unparseable" in of(f"stats {uri}")
    assert [line.split()[1] for line in of("--reason InvalidField").splitlines()] == ["REASON", "InvalidField"]


def _repairs_a_store(lines: list[str], folder: Path) -> None:
    uri = make_store(folder / "orders", [message(1)], [message(2)]).uri
    Store(uri).opened("messages").restore(1)
    look, accept = (line.replace("s3a://lake/orders", uri) for line in lines)

    dry = run_script(look, folder, folder)
    assert (dry.returncode, "changed by another writer: RESTORE at version 3" in dry.stdout) == (1, True)
    assert _run(accept, folder).splitlines()[-1] == "repaired"


def _runs_manifests(lines: list[str], folder: Path) -> None:
    """Two messages are from the 1st of March, two from the 1st of April; the policy is for those older than 30 days."""
    arrive(folder, "a.jsonl", map(record, range(1, 5)))
    (folder / "manifests").mkdir()
    text = yaml.safe_dump_all([stream(folder), policy(mode="DryRun")])
    (folder / "manifests" / "all.yaml").write_text(text)

    validate, run, run_in_april = lines

    assert _run(validate, folder).splitlines() == [
        "manifests/all.yaml: MessageStream/orders is valid",
        "manifests/all.yaml: RetentionPolicy/retention is valid",
    ]
    assert "messagestream.messagestore.dev/orders True Idle 4 0 files 0" in " ".join(_run(run, folder).split())
    orders, retention = yaml.safe_load(_run(run_in_april, folder))["items"]
    assert orders["status"]["totals"]["stored"] == 4
    assert retention["status"]["conditions"][0]["message"] == "2 messages would be removed; mode is DryRun"


def _run(command: str, folder: Path) -> str:
    done = run_script(command, folder, folder)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def _first_words(table: str) -> list[str]:
    return [line.split()[0] for line in table.splitlines()]
