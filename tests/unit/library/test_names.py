"""Helper functions on stream names. tests/jobs compares their results with message-db's."""

import pytest

from messagestore import names
from messagestore.names import cardinal_id, category, hash_64, is_category


@pytest.mark.parametrize(
    ("name", "of_category", "of_id", "of_cardinal_id"),
    [
        ("account-123", "account", "123", "123"),
        ("account-123+abc+d", "account", "123+abc+d", "123"),
        ("account", "account", None, None),
        ("account:command-1-2", "account:command", "1-2", "1-2"),
        ("account-", "account", "", ""),
        ("-1", "", "1", "1"),
        ("account-+x", "account", "+x", ""),
        (None, None, None, None),
    ],
)
def test_a_name_is_a_category_and_an_id(
    name: str | None, of_category: str | None, of_id: str | None, of_cardinal_id: str | None
) -> None:
    assert (category(name), names.id(name), cardinal_id(name)) == (of_category, of_id, of_cardinal_id)


def test_a_category_has_no_id() -> None:
    assert is_category("account")
    assert is_category(None)
    assert not is_category("account-1")


def test_a_hash_is_the_first_half_of_the_md5_with_its_sign() -> None:
    # md5: 202cb962ac59075b964b07152d234b70 and d41d8cd98f00b204e9800998ecf8427e
    assert hash_64("123") == 0x202CB962AC59075B
    assert hash_64("") == 0xD41D8CD98F00B204 - 2**64
    assert hash_64(None) is None
