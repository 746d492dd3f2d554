"""Folders that must not overlap: which roles don't go together, and what a refusal says."""

from typing import Any

import pytest

from messagestore_operator.api import Resource, parse_resource
from messagestore_operator.translate.folders import overlaps
from messagestore_operator.translate.unsupported import refusals

REMOVING = {"afterIngest": "Delete"}


def made(kind: str, name: str, spec: dict[str, Any], namespace: str = "default") -> Resource:
    return parse_resource(
        {
            "apiVersion": "messagestore.dev/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
    )


def stream(name: str = "orders", source: str = "s3a://in/orders", table: str | None = None, **files: Any) -> Resource:
    where = {"files": {"uri": source, **files}}
    spec = {"table": {"uri": table or f"s3a://lake/{name}"}, "source": where, "trigger": {"manual": {}}}
    return made("MessageStream", name, spec)


def with_updates(updates: str, source: str = "s3a://in/orders", archive: str | None = None) -> Resource:
    files = {"uri": updates, **({"afterIngest": "Archive", "archiveUri": archive} if archive else {})}
    spec = {"table": {"uri": "s3a://lake/orders"}, "source": {"files": {"uri": source}}, "trigger": {"manual": {}}}
    return made("MessageStream", "orders", {**spec, "lifecycle": {"source": {"files": files}}})


def policy(archive: str, name: str = "tidy", **more: Any) -> Resource:
    rules = [{"name": "old", "maxAge": "P90D"}]
    spec = {"streamRefs": [{"name": "orders"}], "rules": rules, "trigger": {"manual": {}}}
    return made("RetentionPolicy", name, {**spec, "archive": {"uri": archive, **more}})


def replay(to: str, name: str = "again") -> Resource:
    return made("ReplayJob", name, {"streamRef": {"name": "orders"}, "destination": {"files": {"uri": to}}})


def said(resource: Resource, *others: Resource) -> list[str]:
    return [str(found) for found in overlaps(resource, others)]


@pytest.mark.parametrize("landing", ["s3a://in/orders", "s3://in/orders/", "s3a://in", "s3a://in/orders/old/2026"])
@pytest.mark.parametrize("writes", [policy, replay], ids=["archive", "destination"])
def test_nothing_is_written_to_a_folder_that_files_arrive_in(writes: Any, landing: str) -> None:
    folder, source = "s3a://in/orders/old" if landing != "s3a://in/orders" else landing, stream(source=landing)
    (words,) = said(writes(folder), source)
    assert words.startswith(("spec.archive.uri: must not", "spec.destination.files.uri: must not"))
    assert f"spec.source.files.uri of MessageStream orders, {landing}, or be in it" in words
    assert "would arrive in the other; use a folder beside it" in words
    (words,) = said(source, writes(folder))
    assert words.startswith("spec.source.files.uri: must not contain ")
    assert " of RetentionPolicy tidy, " in words or " of ReplayJob again, " in words


def test_two_streams_read_one_folder_only_if_neither_removes_files() -> None:
    keeps, other = stream(), stream("bills", source="s3a://in/orders/eu")
    assert said(keeps, other) == []
    for removing in (stream("bills", **REMOVING), stream("bills", source="s3a://in", **REMOVING)):
        assert ["each loses the files that the other has taken" in words for words in said(keeps, removing)] == [True]
        assert ["each loses the files that the other has taken" in words for words in said(removing, keeps)] == [True]


def test_files_of_two_sources_are_archived_in_two_folders() -> None:
    one, other = (
        stream(name, source=f"s3a://in/{name}", afterIngest="Archive", archiveUri="s3a://done/all")
        for name in ("orders", "bills")
    )
    (words,) = said(one, other)
    assert "files of the same name would replace each other" in words


@pytest.mark.parametrize(
    "other",
    [
        policy("s3a://lake/orders/archive"),
        replay("s3a://lake/orders"),
        stream("bills", source="s3a://lake/orders/messages"),
        stream("bills", table="s3a://lake/orders/bills"),
    ],
)
def test_a_table_folder_contains_nothing_else(other: Resource) -> None:
    (words,) = said(other, stream())
    assert words.endswith("is in the table folder of MessageStream orders, which must contain nothing else")


@pytest.mark.parametrize(
    "other", [policy("s3a://lake/all"), replay("s3a://lake/all"), stream("bills", source="s3a://lake")]
)
def test_a_table_is_in_no_folder_that_runs_read_or_write(other: Resource) -> None:
    (words,) = said(other, stream(table="s3a://lake/all/orders"))
    assert "must not contain spec.table.uri of MessageStream orders, s3a://lake/all/orders, or be in it" in words


def test_folders_that_do_not_disturb_each_other_are_allowed() -> None:
    assert said(policy("s3a://archive/all/orders"), policy("s3a://archive/all", "other")) == []
    assert said(replay("s3a://out/all/1"), replay("s3a://out/all", "other"), policy("s3a://out/all")) == []
    assert said(stream("bills", source="s3a://in/orders-2", **REMOVING), stream(**REMOVING)) == []
    elsewhere = {"storage": {"endpoint": "https://other.example.org"}}
    here = {"storage": {"endpoint": "https://one.example.org"}}
    assert said(policy("s3a://in/orders", **elsewhere), stream(**here)) == []


def test_two_streams_of_one_table_are_for_its_marker_to_judge() -> None:
    assert said(stream("heir", table="s3a://lake/orders", **REMOVING), stream(**REMOVING)) == []


def test_a_name_of_another_namespace_is_said_with_it() -> None:
    other = made("RetentionPolicy", "tidy", policy("s3a://in/orders").to_dict()["spec"], "audit")
    assert "of RetentionPolicy audit/tidy" in said(stream(), other)[0]


@pytest.mark.parametrize(
    ("resource", "field", "words"),
    [
        (with_updates("s3a://in/orders"), "spec.lifecycle.source.files.uri", "both as messages and as status updates"),
        (with_updates("s3a://in/orders/status"), "spec.lifecycle.source.files.uri", "both as messages"),
        (with_updates("s3a://in"), "spec.lifecycle.source.files.uri", "both as messages"),
        (
            with_updates("s3a://status", archive="s3a://in/orders/status"),
            "spec.lifecycle.source.files.archiveUri",
            "must not contain spec.source.files.uri, s3a://in/orders, or be in it",
        ),
        (stream(source="s3a://lake"), "spec.source.files.uri", "must not contain the table's folder"),
        (stream(source="s3a://lake/orders/in"), "spec.source.files.uri", "or be in it"),
    ],
)
def test_the_folders_of_one_stream_lie_beside_each_other(resource: Resource, field: str, words: str) -> None:
    (found,) = refusals(resource)
    assert ".".join(map(str, found.path)) == field
    assert words in found.message
