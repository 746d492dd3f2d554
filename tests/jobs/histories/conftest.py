"""A failed comparison with the model prints its differences in full."""

import pytest

pytest.register_assert_rewrite("support.histories.world", "support.histories.found")
