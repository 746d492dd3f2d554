"""How dead letters are put into portions."""

import numpy as np

from messagestore_jobs.source.records import portions


def test_a_portion_ends_once_it_is_full_and_order_is_kept() -> None:
    sizes = np.array([4, 5, 3, 1, 9, 1])
    assert portions(sizes, 10).tolist() == [0, 0, 0, 1, 1, 2]


def test_a_dead_letter_larger_than_a_portion_ends_it_and_later_letters_come_in_further_ones() -> None:
    assert portions(np.array([25, 1, 1]), 10).tolist() == [0, 2, 2]


def test_without_dead_letters_there_is_no_portion() -> None:
    assert portions(np.array([], dtype=np.int64), 10).tolist() == []
