"""Resources in little memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from messagestore_operator.cluster.packed import Index, PackedResources
from support.launches import stream


class Clock:
    """Time that passes between two uses."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 60
        return self.now


def named(number: int, version: str = "1") -> tuple[tuple[str, str, str], object]:
    made = stream(f"orders-{number}")
    about = made.metadata.model_copy(update={"resource_version": version})
    return made.identity, made.model_copy(update={"metadata": about})


def test_an_unused_object_is_packed_and_unpacks_to_the_same() -> None:
    packed, given = PackedResources(2, Clock()), dict(map(named, range(5)))
    packed.update(given)
    assert sum(one is not None for one in packed._packed.values()) == 3
    assert dict(packed) == given
    assert (len(packed), len(packed._live)) == (5, 2)
    # All of them, without a change of those that were used last.
    last = list(packed._live)
    assert {key: packed.peek(key) for key in given} == given
    assert list(packed._live) == last


def test_objects_stay_unpacked_in_constant_use_however_many_they_are_and_not_for_being_listed() -> None:
    packed = PackedResources(2, lambda: 1.0)
    packed.update(dict(map(named, range(5))))
    assert len(packed._live) == 2
    assert len(dict(packed)) == len(packed._live) == 5


def test_a_newer_version_replaces_a_packed_one_and_a_removed_one_is_gone() -> None:
    packed = PackedResources(1, Clock())
    packed.update(dict(map(named, range(3))))
    key, newer = named(0, version="2")
    packed[key] = newer
    _ = packed[named(1)[0]]
    assert packed[key] == newer
    del packed[key]
    assert (key in packed, len(packed)) == (False, 2)
    with pytest.raises(KeyError):
        packed[key]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 12))))
def test_an_index_has_the_members_that_were_added_and_not_removed(changes: list[tuple[bool, int, int]]) -> None:
    index, expected = Index[int, int](), {key: set() for key in range(3)}
    for adds, key, member in changes:
        (index.add if adds else index.discard)(key, member)
        (expected[key].add if adds else expected[key].discard)(member)
    assert {key: sorted(index[key]) for key in expected} == {key: sorted(held) for key, held in expected.items()}
    assert len(index._members) == sum(map(bool, expected.values()))
