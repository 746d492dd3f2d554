"""Two streams that name one table never write at the same time, and the refused one says why."""

from support.laws import Source, check_laws, read_store
from support.records import message, records
from support.site import STREAM, Site, condition_of
from support.witness import Witness

LANDED = {"orders": records(range(30)), "invoices": records(range(100, 110))}


def test_two_streams_on_one_table_never_write_together_and_the_second_says_why_it_waits(site: Site) -> None:
    for name, landed in LANDED.items():
        site.land(f"{name}/1.jsonl", landed)
    table = {"uri": site.uri("shared")}
    with Witness(site.cluster, site.namespace) as witness:
        site.apply(*(site.stream(name, table=table) for name in LANDED))
        # Either may be the first that takes the table.
        ((second, why),) = site.until(lambda: _waiting(site), "one of the two waits for the table", 60).items()
        (first,) = LANDED.keys() - {second}
        assert f"MessageStream {site.namespace}/{first}" in why
        site.ran(STREAM, first)
        # The folder belongs to the first now: the second's run is refused, and its user can correct the URI.
        refused = site.condition(STREAM, second, "Stalled", "True", "TableRefused")
    assert f"belongs to MessageStream {site.namespace}/{first}" in refused
    assert not witness.together
    witness.check()
    check_laws(read_store(site, "shared"), Source(LANDED[first].splitlines(), message))


def _waiting(site: Site) -> dict[str, str]:
    """What the streams that wait for the table say, by their names."""
    ready = {name: condition_of(site.status(STREAM, name), "Ready") for name in LANDED}
    return {name: one["message"] for name, one in ready.items() if one.get("reason") == "TableBusy"}
