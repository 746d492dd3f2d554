"""Names of runs in a cluster: short, safe, and always the same."""

import re

from hypothesis import given
from hypothesis import strategies as st

from messagestore_operator.api import MessageStream
from messagestore_operator.translate.names import numbered_run_name

DNS_1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
NAMES = st.from_regex(r"\A[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?\Z").filter(
    lambda name: all(part and part[0] != "-" and part[-1] != "-" for part in name.split("."))
)
KINDS = st.sampled_from(["ingest", "purge", "erase", "replay", "maintain", "delete"])


def stream(name: str, uid: str = "3f1c") -> MessageStream:
    spec = {
        "table": {"uri": "s3a://lake/orders"},
        "source": {"files": {"uri": "s3a://landing/orders/"}},
        "trigger": {"manual": {}},
    }
    return MessageStream.model_validate({"metadata": {"name": name, "uid": uid}, "spec": spec})


@given(NAMES, KINDS, st.integers(1, 10**9))
def test_a_run_name_is_a_short_label(name: str, kind: str, number: int) -> None:
    found = numbered_run_name(stream(name), kind, number)
    assert DNS_1035.fullmatch(found)
    assert len(found) <= 50
    assert found == numbered_run_name(stream(name), kind, number)


def test_long_names_that_begin_alike_have_other_runs() -> None:
    names = {numbered_run_name(stream("a" * 60 + end), "maintain", 7) for end in ("x", "y")}
    assert len(names) == 2


def test_a_resource_made_again_has_other_runs() -> None:
    names = {numbered_run_name(stream("orders", uid), "ingest", 1) for uid in ("3f1c", "77aa")}
    assert len(names) == 2


def test_a_run_name_has_resource_kind_and_number() -> None:
    assert re.fullmatch("orders-eu-ingest-12-[0-9a-f]{8}", numbered_run_name(stream("orders.eu"), "ingest", 12))
