"""Specs that can't work: a condition soon says why, and a corrected spec is enough to repair them."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from support.kind import Resource
from support.laws import Source, check_laws, read_store
from support.long import few
from support.records import message, records
from support.site import STREAM, Site, condition_of

WITHIN_SECONDS = 60
BY_RUNS_SECONDS = 240
"""Their drivers must start first, on a node that is busy with all of them."""
HEALED_SECONDS = 600
"""All start at once, so that many runs share the node."""
MESSAGES = 20
CORRECTED = {"some": ("size", "credentials"), "all": ("image", "credentials", "size", "bucket", "predicate")}
"""The streams whose specs are corrected: each then has a run. Of one of some a run said what was wrong."""


@dataclass(frozen=True)
class Bad:
    """A stream, named after its error."""

    name: str
    reason: str
    words: str
    spec: dict[str, Any]
    better: dict[str, Any] = field(default_factory=dict)
    by_run: bool = False


@pytest.mark.parametrize("corrected", few(CORRECTED, "some"))
def test_a_wrong_spec_is_reported_in_time_and_runs_succeed_once_it_is_corrected(site: Site, corrected: str) -> None:
    site.apply(site.secret("wrong", "nobody", "guesses-this"))
    streams = _bad(site)
    for bad in streams:
        site.land(f"{bad.name}/1.jsonl", records(range(MESSAGES)))
    site.apply(*(site.stream(bad.name, **bad.spec) for bad in streams))
    at_once = [bad for bad in streams if not bad.by_run]
    site.until(lambda: all(_said(site, bad) for bad in at_once), "what needs no run is said", WITHIN_SECONDS)
    site.until(lambda: all(_said(site, bad) for bad in streams), "all have said what is wrong", BY_RUNS_SECONDS)

    better = [bad for bad in streams if bad.name in CORRECTED[corrected]]
    for bad in streams:
        if bad not in better:
            # Its runs, which fail again and again, would take the node from the others.
            site.delete(STREAM, bad.name)
    site.apply(*(_mended(site, bad) for bad in better))
    for bad in better:
        healed = site.wait(STREAM, bad.name, _heals, "it heals", HEALED_SECONDS)
        assert condition_of(healed, "Stalled") == {}
        check_laws(read_store(site, bad.name), Source(records(range(MESSAGES)).splitlines(), message))


def _bad(site: Site) -> list[Bad]:
    return [
        Bad("image", "ImagePullFailed", "no-such-image", {"spark": {"image": "localhost:1/no-such-image:1"}}),
        Bad("credentials", "StorageDenied", "credentials", {"storage": site.storage("wrong")}, by_run=True),
        Bad("size", "Unschedulable", "no node", {"spark": {"driver": {"memory": "900g"}}}),
        Bad(
            "bucket",
            "StorageMissing",
            "no-such-bucket",
            {"source": {"files": {"uri": "s3a://no-such-bucket/landing"}}},
            {"source": {"files": {"uri": site.uri("landing/bucket")}}},
            by_run=True,
        ),
        Bad("predicate", "PredicateRefused", "filter.where", {"filter": {"where": "no_such_column > 2"}}),
    ]


def _said(site: Site, bad: Bad) -> bool:
    """Whether Ready is False with the expected reason and message."""
    ready = condition_of(site.status(STREAM, bad.name), "Ready")
    return ready.get("status") == "False" and ready["reason"] == bad.reason and bad.words in ready["message"]


def _heals(status: dict[str, Any]) -> bool:
    return bool(condition_of(status, "Ready")["status"] == "True")


def _mended(site: Site, bad: Bad) -> Resource:
    return site.stream(bad.name, **bad.better)
