"""Which consumer groups are noted."""

import pytest

from messagestore_jobs.source.kafka_topics import is_kept


@pytest.mark.parametrize(
    ("name", "patterns", "kept"),
    [
        ("billing", ("billing",), True),
        ("billing-eu", ("billing",), False),
        ("reports-eu", ("billing", "reports-*"), True),
        ("eu.reports", ("*reports",), True),
        ("a.b", ("a?b", "a.c"), False),
        ("a\nb", ("a*",), True),
        ("any", (), False),
    ],
)
def test_a_star_stands_for_any_text_and_all_else_for_itself(name: str, patterns: tuple[str, ...], kept: bool) -> None:
    assert is_kept(name, patterns) == kept
