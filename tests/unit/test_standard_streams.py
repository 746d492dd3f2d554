"""What a command does where nobody reads its output, or where it can't be written."""

import subprocess
import sys
from pathlib import Path

import pytest

from support.stores import make_store, message


@pytest.mark.parametrize(
    ("output", "code", "told"),
    [(">&-", 0, ""), (">/dev/full", 1, "error: the output can't be written: No space left on device\n")],
)
def test_a_command_ends_in_words_wherever_its_output_goes(tmp_path: Path, output: str, code: int, told: str) -> None:
    store = make_store(tmp_path / "store", [message(1)])
    line = f'"$0" -m messagestore_operator get "$1" {output}'
    command = ["sh", "-c", line, sys.executable, store.uri]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, told)


def test_an_interrupt_while_modules_load_is_told_in_one_line() -> None:
    script = """
import sys
from messagestore_operator.__main__ import main
class Interrupting:
    def find_spec(self, name, *more):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "stopped by SIGINT\n")


def test_a_closed_input_has_no_manifest() -> None:
    command = ["sh", "-c", '"$0" -m messagestore_operator validate -f - <&-', sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "-:1: the files have no resource\n")
