"""A manifest that `messagestore validate` accepts means the same to kubectl."""

import itertools
import json
import subprocess
from typing import Any

from hack import programs

from messagestore_operator.manifests.yaml_tree import read_documents

LETTERS = "018xboe.+-_"
WORDS = ["yes", "No", "oN", "off", "TRUE", "tRue", "Null", "~", "1:30", "0o17", "0O17", "1e400", "2026-01-01", "9" * 20]


def test_scalars_mean_the_same_to_kubectl() -> None:
    short = ["".join(some) for length in (1, 2, 3, 4) for some in itertools.product(LETTERS, repeat=length)]
    accepted = {text: value for text in (*short, *WORDS) for value in accepted_values(text)}
    assert len(accepted) > 10_000
    assert by_kubectl(accepted) == [json.loads(json.dumps(value)) for value in accepted.values()]


def accepted_values(text: str) -> list[Any]:
    """The value of a scalar that is accepted; none of other texts."""
    documents, problems = read_documents("", f"a: {text}")
    return [] if problems or isinstance(documents[0].data["a"], list) else [documents[0].data["a"]]


def by_kubectl(scalars: Any) -> list[Any]:
    items = "".join(f"\n- {text}" for text in scalars)
    manifest = f"apiVersion: example.com/v1\nkind: Any\nmetadata: {{name: any}}\nitems_: {items}\n"
    command = [programs.program("kubectl"), "annotate", "--local", "--filename", "-", "--output", "json", "a=b"]
    printed = subprocess.run(command, input=manifest, capture_output=True, text=True, check=True).stdout
    read: list[Any] = json.loads(printed)["items_"]
    return read
