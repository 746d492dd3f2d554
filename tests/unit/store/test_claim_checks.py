"""A row's payload_uri names a claim check of its own store, or is refused."""

import pytest

from messagestore_core.store.claim_checks import claim_check_name

NAME = f"{7:020}"


@pytest.mark.parametrize(
    ("store", "payload_uri"),
    [
        ("file:///data/store", f"file:///data/store/payloads/{NAME}"),
        ("file:///data/store/", f"file:/data/store/payloads/{NAME}"),
        ("/data/store", f"file:///data/store/payloads/{NAME}"),
        ("file:///data/store", f"/data/store/payloads/{NAME}"),
        ("s3a://lake/store", f"s3a://lake/store/payloads/{NAME}"),
        ("s3://lake/store", f"s3a://lake/store/payloads/{NAME}"),
        ("s3a://lake/a b+(c)%2F", f"s3a://lake/a b+(c)%2F/payloads/{NAME}"),
    ],
)
def test_a_folder_may_be_spelled_as_its_writers_did(store: str, payload_uri: str) -> None:
    assert claim_check_name(store, payload_uri) == NAME


def test_a_scrubbed_payload_has_a_longer_name() -> None:
    assert claim_check_name("/store", f"/store/payloads/{NAME}-0af3-11-22") == f"{NAME}-0af3-11-22"


@pytest.mark.parametrize(
    "payload_uri",
    [
        "file:///etc/passwd",
        f"file:///data/other/payloads/{NAME}",
        f"file:///data/store/payloads/../../other/{NAME}",
        f"file:///data/store/payloads/a/{NAME}",
        f"file:///data/store/payloads/%2e%2e/{NAME}",
        f"file:///data/store/payloads%2F{NAME}",
        f"file://host/data/store/payloads/{NAME}",
        f"FILE:///data/store/payloads/{NAME}",
        f"s3a://data/store/payloads/{NAME}",
        f"http://data/store/payloads/{NAME}",
        f"file:///data/store/payloads/{NAME}\n",
        f"file:///data/store/payloads/{NAME}/",
        f"file:///data/store/payloads/{NAME}?x",
        f"file:///data/store/payloads/{NAME}-..",
        "file:///data/store/payloads/_manifest",
        f"file:///data/storeX/payloads/{NAME}",
        f"x file:///data/store/payloads/{NAME}",
        "",
    ],
)
def test_a_uri_outside_of_the_store_is_no_claim_check(payload_uri: str) -> None:
    assert claim_check_name("file:///data/store", payload_uri) is None


def test_regular_expression_characters_in_a_uri_stand_for_themselves() -> None:
    assert claim_check_name("s3a://lake/a.c", f"s3a://lake/abc/payloads/{NAME}") is None
