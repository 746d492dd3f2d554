"""What a comparison with the model found is told in full."""

import pytest

pytest.register_assert_rewrite("support.histories.world", "support.histories.found")
