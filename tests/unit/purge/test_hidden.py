"""A plan's task keeps what it names, but for erased messages and streams."""

from messagestore_core.contract.purge import Hold, Match, PurgeTask, Rule, StreamPosition
from messagestore_core.store.heads import HiddenHeads
from messagestore_core.store.keyed import message_key, stream_key
from messagestore_core.store.tombstones import Erased
from messagestore_jobs.purge.hidden import without_erased

KEY = b"k" * 32
ERASED = Erased(KEY, bytes.fromhex(message_key(KEY, "id-of-ann")))
HEADS = HiddenHeads({stream_key(KEY, "customer-ann"): 1}, 0, KEY)


def test_of_a_plan_only_erased_names_are_hidden() -> None:
    rules = (
        Rule(name="id-of-ann", match=Match(message_ids=("id-of-ann", "m1"), types=("created",)), erase=True),
        Rule(name="position", truncate_before=StreamPosition(stream_name="customer-ann", position=3)),
        Rule(name="where", match=Match(where="message_id = 'id-of-ann'", stream_names=("customer-bob",))),
    )
    task = PurgeTask(mode="Enforce", rules=rules, holds=(Hold(name="h", match=Match(stream_names=("customer-ann",))),))
    less = without_erased(task, ERASED, HEADS)
    ids, position, where = less.rules
    assert ids.match.message_ids == (f"hmac-sha256:{message_key(KEY, 'id-of-ann')}", "m1")
    assert (ids.name, ids.erase, ids.match.types) == ("id-of-ann", True, ("created",))
    assert position.truncate_before.position == 3
    assert where.match.stream_names == ("customer-bob",)
    hidden = (position.truncate_before.stream_name, where.match.where, *less.holds[0].match.stream_names)
    assert all(str(text).startswith("hmac-sha256:") for text in hidden)
    assert without_erased(less, ERASED, HEADS) is less


def test_a_task_that_names_nothing_erased_stays_as_it_is() -> None:
    task = PurgeTask(mode="Enforce", rules=(Rule(name="r", match=Match(message_ids=("m1",))),))
    assert without_erased(task, ERASED, HEADS) is task


def test_a_hidden_category_is_one_that_a_plan_may_have() -> None:
    erased = Match(categories=("id_of_ann", "order"))
    task = PurgeTask(mode="Enforce", rules=(Rule(name="r", match=erased),), holds=(Hold(name="h", match=erased),))
    ids = Erased(KEY, bytes.fromhex(message_key(KEY, "id_of_ann")))
    less = without_erased(task, ids, HEADS)
    hidden = (f"hmac_sha256:{message_key(KEY, 'id_of_ann')}", "order")
    assert [one.match.categories for one in (*less.rules, *less.holds)] == [hidden, hidden]
    assert PurgeTask.model_validate(less.model_dump(mode="json", by_alias=True)) == less
    assert without_erased(less, ids, HEADS) is less
