"""The hosts that replays may send to: none unless the settings name them."""

import pytest
from pydantic import ValidationError

from messagestore_operator.api import Resource, parse_resource
from messagestore_operator.tenancy.check import not_allowed
from messagestore_operator.tenancy.settings import HttpBounds, Tenancy
from messagestore_operator.translate.http import host_of


def to(url: str) -> Resource:
    spec = {"streamRef": {"name": "orders"}, "destination": {"http": {"url": url}}}
    return parse_resource(
        {"apiVersion": "messagestore.dev/v1alpha1", "kind": "ReplayJob", "metadata": {"name": "out"}, "spec": spec}
    )


def refusals(url: str, *hosts: str) -> list[str]:
    return [str(one) for one in not_allowed(to(url), Tenancy(http=HttpBounds(hosts=hosts)))]


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://events.example.org/orders", ("events.example.org",)),
        ("http://Events.Example.org:8080?a=b", ("events.example.org",)),
        ("https://a.b.example.org", ("other", "*.example.org")),
        ("http://10.0.0.7/x:1/y", ("10.0.0.7",)),
        ("http://[fd12::7]:80/", ("[fd12::7]",)),
    ],
)
def test_a_host_that_the_settings_name_is_allowed(url: str, hosts: tuple[str, ...]) -> None:
    assert refusals(url, *hosts) == []


@pytest.mark.parametrize(
    ("url", "hosts"),
    [
        ("https://events.example.org/orders", ()),
        ("https://example.org", ("*.example.org",)),
        ("https://evilexample.org", ("*.example.org", "example.org")),
        ("https://example.org.evil.net/?example.org", ("example.org",)),
        ("https://events.example.org", ("example.org",)),
    ],
)
def test_any_other_host_is_refused_with_the_settings_name(url: str, hosts: tuple[str, ...]) -> None:
    assert refusals(url, *hosts) == [
        f"spec.destination.http.url: {host_of(url)} is none of the hosts that the operator's settings allow "
        "(tenancy.http.hosts)"
    ]


@pytest.mark.parametrize("host", ["localhost", "169.254.169.254", "metadata.google.internal", "[::1]", "127.1"])
def test_no_setting_allows_the_node_itself(host: str) -> None:
    (words,) = refusals(f"http://{host}/x", host)
    assert words.startswith(f"spec.destination.http.url: {host} ")


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org",
        "https://user@example.org/",
        "https://user:secret@example.org/",
        "https://example.org/#part",
        "https://example.org/a b",
        "https:///path",
        "//example.org",
        "https://example.org\\@evil.net/",
        "https://exa\nmple.org/",
    ],
)
def test_a_url_has_neither_user_nor_fragment(url: str) -> None:
    with pytest.raises(ValidationError):
        to(url)


@pytest.mark.parametrize("host", ["*", "*.", "https://example.org", "Example.org", "*example.org", "a b", ""])
def test_a_setting_that_would_allow_too_much_is_refused(host: str) -> None:
    with pytest.raises(ValidationError):
        HttpBounds(hosts=(host,))
