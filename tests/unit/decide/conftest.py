"""A fresh world for each test."""

import pytest

from support.world import World


@pytest.fixture
def world() -> World:
    return World()
