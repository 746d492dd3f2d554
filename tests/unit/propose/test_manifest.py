"""Names and folders that a proposed manifest has."""

import pytest

from messagestore_core.contract.stores import CredentialVariables, StorageEntry
from messagestore_operator.propose.manifest import category, manifest, source_uri, stream_name, table_uri
from messagestore_operator.propose.mapping import Mapped
from messagestore_operator.propose.shapes import Shape


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://shop-events/orders/landing/dt=2026-03-02", "orders"),
        ("s3a://Shop.Events", "shop-events"),
        ("/srv/2026/Web Clicks", "web-clicks"),
        ("/srv/2026", "stream-2026"),
        ("s3a://shop/incoming", "shop"),
    ],
)
def test_a_stream_has_the_name_of_its_folder(uri: str, name: str) -> None:
    assert stream_name(uri) == name


def test_a_store_lies_beside_its_source() -> None:
    assert table_uri("s3://shop/orders/landing", "orders") == "s3a://shop/orders/orders-store"
    assert table_uri("s3a://shop/orders", "orders") == "s3a://shop/orders-store"
    assert table_uri("s3a://shop", "orders") == "s3a://shop-store/orders"
    assert table_uri("/srv/orders", "orders") == "file:///srv/orders-store"
    assert source_uri("/srv/orders") == "file:///srv/orders"
    assert source_uri("s3://shop/orders") == "s3a://shop/orders"
    assert category("web-clicks") == "web_clicks"


def test_a_bucket_is_reached_with_a_secret_that_the_manifest_tells_how_to_make() -> None:
    keys = CredentialVariables(access_key="AWS_ACCESS_KEY_ID", secret_key="AWS_SECRET_ACCESS_KEY")
    entry = StorageEntry(bucket="shop", endpoint="http://s3:9000", path_style_access=True, environment=keys)
    text = manifest("s3a://shop/orders", "orders", Shape("JSONLines", "lines"), Mapped("Native", ""), entry, "head")
    assert "kubectl create secret generic lake-access --from-file=accessKey --from-file=secretKey" in text
    assert "credentialsSecretRef: {name: lake-access}" in text
    assert "endpoint: http://s3:9000" in text
