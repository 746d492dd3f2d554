"""Two streams that name one table never write at the same time, and the refused one says why."""

from support.laws import Source, check_laws, read_store
from support.records import message, records
from support.site import STREAM, Row, Site, condition_of
from support.witness import Witness


def test_two_streams_on_one_table_never_write_together_and_the_second_says_why_it_waits(site: Site) -> None:
    landed = records(range(30))
    site.land("first/1.jsonl", landed)
    site.land("second/1.jsonl", records(range(100, 110)))
    table = {"uri": site.uri("shared")}
    with Witness(site.cluster, site.namespace) as witness:
        site.apply(site.stream("first", table=table), site.stream("second", table=table))
        waits = site.wait(STREAM, "second", _waits, "it waits for the table", 60)
        assert f"MessageStream {site.namespace}/first" in condition_of(waits, "Ready")["message"]
        site.ran(STREAM, "first")
        # The folder belongs to the first now: the second's run is refused, and its user can correct the URI.
        refused = site.condition(STREAM, "second", "Stalled", "True", "TableRefused")
    assert f"belongs to MessageStream {site.namespace}/first" in refused
    assert not witness.together
    witness.check()
    check_laws(read_store(site, "shared"), Source(landed.splitlines(), message))


def _waits(status: Row) -> bool:
    return condition_of(status, "Ready").get("reason") == "TableBusy"
