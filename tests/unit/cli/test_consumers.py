"""``messagestore consumers`` shows, moves and removes the cursors of a store's consumers."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from messagestore.consuming import Consumer
from messagestore_operator.cli.main import app
from support.consumers import received, rows
from support.stores import make_store

runner = CliRunner()


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A store of which billing has handled five messages, and nobody runs."""
    uri = make_store(tmp_path / "store", rows(range(1, 13))).uri
    with Consumer(uri, "billing", slots=1) as one:
        received(one, 5)
    return uri


def run(*arguments: str) -> Result:
    return runner.invoke(app, ["consumers", *arguments])


def listed(store: str, *more: str) -> list[dict[str, object]]:
    result = run("list", store, "-o", "json", *more)
    assert result.exit_code == 0, result.output
    found: list[dict[str, object]] = json.loads(result.stdout)["consumers"]
    return found


def test_list_shows_how_far_each_name_is(store: str) -> None:
    with Consumer(store, "audit", start="Now", slots=2) as other:
        received(other)
        audit, billing = listed(store)
        assert audit["leasedUntil"] is not None
        lines = [line.split() for line in run("list", store).stdout.splitlines()]
    assert {**audit, "leasedUntil": None} == {
        "name": "audit",
        "globalPosition": 12,
        "behind": 0,
        "slots": 2,
        "consumers": 1,
        "leasedUntil": None,
    }
    assert (billing["globalPosition"], billing["behind"], billing["consumers"]) == (5, 7, 0)
    assert [line[:4] for line in lines] == [
        ["NAME", "CURSOR", "BEHIND", "SLOTS"],
        ["audit", "12", "0", "2"],
        ["billing", "5", "7", "1"],
    ]


def test_a_store_without_consumers_has_none(tmp_path: Path) -> None:
    assert listed(make_store(tmp_path / "store", []).uri) == []


@pytest.mark.parametrize(("to", "first"), [("Beginning", 1), ("Now", 13), ("4", 4)])
def test_reset_moves_all_slots_at_once(store: str, to: str, first: int) -> None:
    result = run("reset", store, "billing", "--to", to)
    assert (result.exit_code, result.stdout) == (0, f"consumer billing goes on behind global position {first - 1}\n")
    with Consumer(store, "billing", slots=1) as one:
        assert received(one) == [*range(first, 13)]


def test_delete_forgets_the_cursors(store: str, tmp_path: Path) -> None:
    assert run("delete", store, "billing").exit_code == 0
    assert listed(store) == []
    assert not [path for path in (tmp_path / "store/_consumers").rglob("*") if path.is_file()]
    assert run("delete", store, "billing").exit_code == 1


def test_state_in_another_folder_is_found_by_its_uri(store: str, tmp_path: Path) -> None:
    elsewhere = f"file://{tmp_path}/elsewhere"
    with Consumer(store, "audit", slots=1, state=elsewhere) as other:
        received(other, 3)
    (tmp_path / "elsewhere" / "lost+found").mkdir()
    assert [one["name"] for one in listed(store, "--state", elsewhere)] == ["audit"]
    assert run("reset", store, "audit", "--to", "2", "--state", elsewhere).exit_code == 0
    assert run("delete", store, "audit", "--state", elsewhere).exit_code == 0


def test_reset_and_delete_are_refused_while_a_consumer_runs(store: str) -> None:
    with Consumer(store, "billing", slots=1) as one:
        received(one, 1)
        for command in (("reset", store, "billing", "--to", "1"), ("delete", store, "billing")):
            result = run(*command)
            assert result.exit_code == 1
            assert re.search(r"are running, or died and have leases until \S+Z: stop them, or wait", result.stderr)
    assert run("reset", store, "billing", "--to", "1").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("reset", "STORE", "nobody", "--to", "1"), 1, "no state of a consumer nobody"),
        (("reset", "STORE", "billing", "--to", "Yesterday"), 2, "Beginning, Now or a global position"),
        (("reset", "STORE", "billing", "--to", "0"), 2, "no global position"),
        (("reset", "STORE", "../billing", "--to", "1"), 2, "no name of a consumer"),
        (("delete", "STORE", "nobody"), 1, "no state of a consumer nobody"),
        (("list", "/nowhere"), 1, "no message store"),
    ],
)
def test_wrong_arguments_of_consumers_are_reported(
    store: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    result = run(*[store if argument == "STORE" else argument for argument in arguments])
    assert result.exit_code == code
    assert said in result.stderr
