"""The connection to the API server: through the proxy that the environment names, if it names one."""

import pytest

from messagestore_operator.kube.connection import proxy_to

SERVER = "https://api.example.org:6443"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("https_proxy", "http_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.upper(), raising=False)


def test_without_a_proxy_the_way_is_straight() -> None:
    assert proxy_to(SERVER) is None


def test_a_proxy_of_the_environment_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    assert proxy_to(SERVER) == "http://proxy.example.org:3128"


def test_a_proxy_is_not_taken_for_a_server_that_the_environment_excepts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,.example.org")
    assert proxy_to(SERVER) is None
