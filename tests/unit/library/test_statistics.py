"""Figures of a store."""

from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from messagestore.reader import Reader
from messagestore.versions import Versions
from messagestore_core.contract.ingest import IngestCounts
from support.stores import add_messages, make_store, message

FIGURES: dict[str, Callable[[Reader], tuple[int, IngestCounts]]] = {
    "statistics": lambda reader: (reader.statistics().messages, reader.statistics().totals),
    "overview": lambda reader: (sum(part.messages for part in reader.overview().parts), reader.overview().totals),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_store_without_messages_has_figures(tmp_path: Path, name: str) -> None:
    with Reader(make_store(tmp_path / "store", []).uri) as reader:
        assert FIGURES[name](reader) == (0, IngestCounts())


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_an_earlier_version_are_what_they_were(tmp_path: Path, name: str) -> None:
    uri = make_store(tmp_path / "store", [message(1)], [message(2)], [message(3)]).uri
    for version in (1, 2, 3):
        with Reader(uri, version=version) as reader:
            assert FIGURES[name](reader) == (version, IngestCounts(received=version, stored=version))


def test_figures_are_of_one_version_while_messages_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uri, table, number = make_store(tmp_path / "store", [message(1)]).uri, Versions.table, iter(range(2, 9))

    def opened(versions: Versions) -> DeltaTable:
        newest = table(versions)
        add_messages(uri, [message(next(number))])
        return newest

    with Reader(uri) as reader:
        monkeypatch.setattr(Versions, "table", opened)
        statistics, overview = reader.statistics(), reader.overview()
    assert statistics.messages == statistics.totals.stored
    assert sum(part.messages for part in overview.parts) == overview.totals.stored
