"""The reader that people start in a pod: it answers as long as somebody reads, and no longer."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

from messagestore.answering import Question, answer
from support.stores import START, add_dead_letters, make_store, message


def _reader() -> subprocess.Popen[bytes]:
    return _python("-m", "messagestore.answering")


def _python(*arguments: str) -> subprocess.Popen[bytes]:
    pipe, environment = subprocess.PIPE, {**os.environ, "PYTHONPATH": "core:library"}
    return subprocess.Popen([sys.executable, *arguments], stdin=pipe, stdout=pipe, env=environment)


def _ask(reader: subprocess.Popen[bytes], question: dict[str, object]) -> IO[bytes]:
    assert reader.stdin
    assert reader.stdout
    reader.stdin.write(json.dumps(question).encode() + b"\n")
    reader.stdin.flush()
    return reader.stdout


def test_an_answer_is_lines_of_a_word_and_json(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", [message(1)]).uri
    with _reader() as reader:
        lines = _ask(reader, {"ask": "messages", "uri": uri, "payloads": True, "native": True}).read().splitlines()
    assert [line.partition(b" ")[0] for line in lines] == [b"message", b"end"]
    assert b'"payload":{"n":1}' in lines[0]
    assert reader.returncode == 0


def test_a_question_of_a_later_release_is_an_error() -> None:
    with _reader() as reader:
        word, _, text = _ask(reader, {"ask": "tomorrow", "uri": "file:///nowhere"}).read().partition(b" ")
    assert (word, "of a release that doesn't know the question" in json.loads(text)["message"]) == (b"error", True)


def test_dead_letters_are_told_without_their_bytes(tmp_path: Path) -> None:
    uri = make_store(tmp_path / "store", []).uri
    add_dead_letters(uri, [{"failed_at": START, "raw": b"torn"}])
    answers = [answer(Question(ask="deadLetters", uri=uri, payloads=payloads)) for payloads in (False, True)]
    told = [next(lines)[1] for lines in answers]
    assert [one.get("raw") for one in told] == [None, "torn"]


def test_a_reader_ends_with_whoever_reads() -> None:
    """As if kubectl had been killed while the store does not answer: standard input is closed."""
    waits = "from messagestore.answering import end_with_the_asker; end_with_the_asker(None)"
    with _python("-c", waits) as reader:
        assert reader.stdin
        reader.stdin.close()
    assert reader.returncode == 1
