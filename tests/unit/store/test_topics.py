"""What is noted of topics."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from messagestore_core.store.errors import TableRefusedError
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.objects import read_document
from messagestore_core.store.topics import (
    GroupsNote,
    Place,
    RestoredNote,
    TopicNote,
    note_groups,
    note_restored,
    note_topic,
    noted_groups,
    noted_topic,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)


def note(configuration: dict[str, str] | None, *, days: int = 0, partitions: int = 1, topic_id: str = "a") -> TopicNote:
    return TopicNote(
        topic="orders",
        topic_id=topic_id,
        partitions=partitions,
        replicas=1,
        configuration=configuration,
        noted_at=AT + timedelta(days=days),
    )


@pytest.fixture
def held(tmp_path: Path) -> HeldStore:
    return HeldStore(f"file://{tmp_path}")


@pytest.mark.parametrize("empty", [{}, None])
def test_an_empty_configuration_never_replaces_another(held: HeldStore, empty: dict[str, str] | None) -> None:
    note_topic(held, note({"retention.ms": "-1"}))
    note_topic(held, note(empty, partitions=3, days=1))
    assert noted_topic(held, "orders") == note({"retention.ms": "-1"}, partitions=3, days=1)


def test_a_topic_that_is_as_it_was_is_not_noted_again(held: HeldStore) -> None:
    note_topic(held, note({}))
    note_topic(held, note({}, days=1))
    assert noted_topic(held, "orders") == note({})


def test_of_several_topics_of_a_name_the_newest_that_says_something_counts(held: HeldStore) -> None:
    assert noted_topic(held, "orders") is None
    note_topic(held, note({"retention.ms": "1"}, partitions=5))
    note_topic(held, note({"retention.ms": "2"}, partitions=3, topic_id="b", days=1))
    note_topic(held, note({}, topic_id="c", days=2))
    assert noted_topic(held, "orders") == note({"retention.ms": "2"}, partitions=5, topic_id="c", days=2)


def groups(offsets: dict[str, dict[int, int]], *, topic_id: str = "a", days: int = 0) -> GroupsNote:
    return GroupsNote(topic="orders", topic_id=topic_id, offsets=offsets, noted_at=AT + timedelta(days=days))


def test_offsets_that_the_cluster_has_forgotten_stay_noted(held: HeldStore) -> None:
    note_groups(held, groups({"g": {0: 1, 1: 2}, "h": {0: 7}}))
    note_groups(held, groups({}))
    note_groups(held, groups({"g": {1: 3}, "i": {0: 0}}))
    noted = read_document(held.objects("_topics", "a"), "groups.json", GroupsNote)
    assert noted == groups({"g": {0: 1, 1: 3}, "h": {0: 7}, "i": {0: 0}})


def test_the_offset_of_a_group_is_that_of_the_newest_topic_that_it_has_read(held: HeldStore) -> None:
    note_groups(held, groups({"g": {0: 10, 1: 5}, "h": {0: 4}}))
    # Of b the first 8 records had been put back: what was at 10 of a is at 6.
    back = RestoredNote(topic="orders", topic_id="b", job="back", noted_at=AT, groups={"g": {0: Place(1, 10)}})
    note_restored(held, back.model_copy(update={"ends": {0: 8}, "moved": {"g": {0: 6}}}))
    note_groups(held, groups({"g": {0: 7}, "h": {0: 9}, "i": {0: 3}}, topic_id="b", days=1))
    among = {"g": {0: Place(1, 10), 1: Place(1, 5)}, "i": {0: Place(0, 0)}}
    assert noted_groups(held, "orders", {"a": 1}) == {**among, "h": {0: Place(2, 0)}}
    assert noted_groups(held, "orders", {"a": 1, "b": 2}) == {**among, "h": {0: Place(2, 9)}}
    note_groups(held, groups({"h": {0: 2}}, topic_id="c", days=2))
    assert noted_groups(held, "orders", {"a": 1, "b": 2, "c": 3}) == {**among, "h": {0: Place(3, 2)}}
    assert noted_groups(held, "others", {}) == {}


def test_a_group_that_has_read_nothing_of_a_topic_made_again_is_where_it_was_in_the_one_before(held: HeldStore) -> None:
    note_groups(held, groups({"g": {0: 4, 1: 5}}))
    note_groups(held, groups({"g": {0: 0, 1: 2}, "new": {0: 0}}, topic_id="b", days=1))
    assert noted_groups(held, "orders", {"a": 1}) == {"g": {0: Place(1, 4), 1: Place(2, 0)}, "new": {0: Place(2, 0)}}
    assert noted_groups(held, "orders", {"a": 1}, empty="b") == {"g": {0: Place(1, 4), 1: Place(1, 5)}}


@pytest.mark.parametrize("content", [b"", b"[]", b'{"topic": "orders", "partitions": 0}', b"[" * 100_000])
def test_a_malformed_note_of_a_topic_is_refused(held: HeldStore, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "_topics" / "a" / "topic.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(TableRefusedError, match=r"_topics/a/topic\.json"):
        noted_topic(held, "orders")
