"""What kubectl's errors become; those that a running API server gives are in tests/operator/test_plugin.py."""

import pytest

from messagestore_operator.plugin.kubectl import error_of


@pytest.mark.parametrize("plural", ["messagestreams", "retentionpolicies", "replayjobs"])
def test_a_cluster_without_the_kinds_needs_the_operator_or_is_the_wrong_one(plural: str) -> None:
    error = error_of(f'error: the server doesn\'t have a resource type "{plural}"\n')
    assert str(error) == (
        f'the server doesn\'t have a resource type "{plural}"; install the operator in this cluster, or choose another '
        "one by --context"
    )


def test_another_kind_is_not_the_operators() -> None:
    said = 'the server doesn\'t have a resource type "sparkapplications"'
    assert str(error_of(f"error: {said}")) == said
