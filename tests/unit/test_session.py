"""A driver's memory limits follow from its pod's."""

import pytest

from messagestore_jobs.session import left_for_data

MIB, GIB = 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("container", "heap", "shared", "left"),
    [
        pytest.param(2 * GIB, 1 * GIB, False, 384 * MIB, id="a pod, less its heap and what both processes need"),
        pytest.param(10 * GIB, 4 * GIB, False, 5504 * MIB, id="a larger pod"),
        pytest.param(16 * GIB, 2 * GIB, True, 6848 * MIB, id="a machine, of which others have half"),
        pytest.param(1 * GIB, 1 * GIB, False, 64 * MIB, id="a pod that has too little goes on with the least"),
        pytest.param(1 * GIB, 512 * MIB, True, 64 * MIB, id="so does a small machine"),
    ],
)
def test_data_gets_what_heap_and_libraries_leave(container: int, heap: int, shared: bool, left: int) -> None:
    assert left_for_data(container, heap, shared=shared) == left
