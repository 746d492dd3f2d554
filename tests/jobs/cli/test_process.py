"""The command as its own process: what reaches the user's terminal, and what a signal does."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml

from support.local_runs import AT, arrive, record, replay, stream
from support.long import few
from support.waiting import scaled, wait_until

COMMAND = Path(sys.executable).parent / "messagestore"
SMALL = ["--driver-memory", "1g", "--cores", "1"]


def start(manifests: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    line = [str(COMMAND), "run", "-f", str(manifests), "--at", AT, *SMALL, *options]
    return subprocess.Popen(
        line,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=manifests.parent,
        env={**os.environ, **environment},
    )


def test_sparks_noise_stays_away(tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 4)))
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(yaml.safe_dump(stream(tmp_path)))
    process = start(manifests, "-o", "json")
    out, err = process.communicate(timeout=scaled(300))
    assert process.returncode == 0, err
    assert json.loads(out)["items"][0]["status"]["totals"]["stored"] == 3
    lines = [line.partition(": ")[2] or line for line in err.splitlines()]
    assert lines == [
        "starting Spark",
        "open",
        "ingest",
        "3 records received: 3 stored",
        "Idle: 3 messages stored; last batch 0s ago",
    ]
    assert {path.name for path in tmp_path.iterdir()} == {
        "landing",
        "manifests.yaml",
        "orders",
        "orders.messagestore-lock",
    }


@pytest.mark.long
def test_the_locale_does_not_decide_which_files_there_are(tmp_path: Path) -> None:
    """One that is not installed is the same as C."""
    folder = tmp_path / "zürich"
    folder.mkdir()
    arrive(folder, "größe.jsonl", map(record, range(1, 4)))
    os.mkfifo(folder / "landing" / "pipe")
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(yaml.safe_dump(stream(folder)))
    out, err = start(manifests, "-o", "json", LC_ALL="xx_XX.UTF-8").communicate(timeout=scaled(300))
    (status,) = [item["status"] for item in json.loads(out)["items"]]
    assert status["totals"]["stored"] == 3, err
    assert "landing/pipe is skipped: it is no plain file" in err
    with open(os.fsencode(folder / "landing") + b"/\xff.jsonl", "wb") as nameless:  # noqa: PTH123
        nameless.write(b"{}\n")
    process = start(manifests, "-o", "json", LC_ALL="xx_XX.UTF-8")
    out, err = process.communicate(timeout=scaled(300))
    assert process.returncode == 1, err
    (status,) = [item["status"] for item in json.loads(out)["items"]]
    (ready,) = [condition for condition in status["conditions"] if condition["type"] == "Ready"]
    assert ready["reason"] == "SourceUnreadable"
    assert "\\xff.jsonl has a name that is not UTF-8" in ready["message"]


def test_a_signal_while_spark_starts_leaves_no_process_behind(tmp_path: Path) -> None:
    arrive(tmp_path, "a.jsonl", [record(1)])
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(yaml.safe_dump(stream(tmp_path)))
    process = start(manifests)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")

    def java() -> list[Path]:
        of = [Path("/proc", pid, "comm") for pid in children.read_text().split()]
        return [one for one in of if one.read_text() == "java\n"]

    wait_until(lambda: bool(java()), 60, lambda: "a JVM starts", beat=0.02)
    (jvm,) = java()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=scaled(60))
    assert (process.returncode, err.splitlines()[-1]) == (
        130,
        "stopped by SIGINT; run it again and it goes on from there",
    )
    wait_until(lambda: not jvm.exists(), 30, lambda: "the JVM has ended")


def test_a_signal_before_spark_starts_is_told(tmp_path: Path) -> None:
    manifests = tmp_path / "manifests.yaml"
    os.mkfifo(manifests)
    process = start(manifests)
    # It opens once the command does, too.
    with manifests.open("w"):
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=scaled(60))
    assert (process.returncode, out, err) == (130, "", "stopped by SIGINT\n")


SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]


@pytest.mark.parametrize(("number", "exit_code"), few(SIGNALS, SIGNALS[1]))
def test_a_signal_ends_the_command_and_the_next_run_continues(
    tmp_path: Path, number: signal.Signals, exit_code: int
) -> None:
    arrive(tmp_path, "a.jsonl", map(record, range(1, 7)))
    slow = {"rateLimit": {"messagesPerSecond": 1}} if number is signal.SIGINT else {}
    manifests = tmp_path / "manifests.yaml"
    manifests.write_text(yaml.safe_dump_all([stream(tmp_path), replay(tmp_path, **slow)]))
    process = start(manifests)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(process.stderr or ()))
    reader.start()
    awaited = "-replay-" if slow else "-ingest-"
    wait_until(
        lambda: any(awaited in line for line in said),
        300,
        lambda: "".join(said),
        alive=lambda: process.poll() is None,
        beat=0.05,
    )
    process.send_signal(number)
    assert process.wait(scaled(60)) == exit_code
    reader.join()
    assert said[-1] == f"stopped by {number.name}; run it again and it goes on from there\n"
    assert not any("Traceback" in line or "py4j" in line for line in said)
    manifests.write_text(yaml.safe_dump_all([stream(tmp_path), replay(tmp_path)]))
    again = start(manifests, "-o", "json")
    out, err = again.communicate(timeout=scaled(300))
    assert again.returncode == 0, err
    statuses = [item["status"] for item in json.loads(out)["items"]]
    assert statuses[0]["totals"]["stored"] == 6
    assert statuses[1]["progress"]["replayed"] == 6
    sent = [line for part in (tmp_path / "again").glob("part-*") for line in part.read_text().splitlines()]
    assert len({json.loads(line)["messageId"] for line in sent}) == len(sent) == 6
