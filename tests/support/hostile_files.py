"""Replacements of each kind of file of a store, as somebody with write access to the bucket could make them."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from support import forgeries
from support.hostile_store import Site

PROPERTY = "messagestore.test.hostile"
EXPRESSION = f"reflect('java.lang.System', 'setProperty', '{PROPERTY}', 'ran')"

Change = Callable[[Site, Path], None]

KINDS = {
    "marker": r"_messagestore\.json",
    "last run": r"_ended\.json",
    "translators": r"_translators\.json",
    "tombstone key": r"_tombstone_key",
    "claim check": r"payloads/\d{20}-[0-9a-f]{16}",
    "commit": r"\w+/_delta_log/\d{20}\.json",
    "check point": r"\w+/_delta_log/\d{20}\.checkpoint\.parquet",
    "last check point": r"\w+/_delta_log/_last_checkpoint",
    "sums": r"\w+/_delta_log/\d{20}\.crc",
    "messages": r"messages/inserted_date=[\d-]+/part-[\w.-]+\.parquet",
    "history": r"history/inserted_date=[\d-]+/part-[\w.-]+\.parquet",
    "rows": r"\w+/part-[\w.-]+\.parquet",
    "plan": r"_purges/[\w-]+/plan\.json",
    "frozen rows": r"_purges/[\w-]+/rows-\d+/part-[\w.-]+\.parquet",
    "cursor": r"_cursors/[\w.-]+/cursor\.json",
    "refused": r"_cursors/[\w.-]+/refused/[\d-]+\.json",
    "topic": r"_topics/[\w-]+/(topic|groups|restored)\.json",
    "consumers": r"_consumers/[a-z-]+/(consumer|slot-\d{4}|member-[0-9a-f]{32})\.json",
    "frozen replay": r"_replays/[\w.-]+/state/frozen\.json",
    "chunk": r"_replays/[\w.-]+/state/chunks/\d{8}\.json",
    "listed": r"_replays/[\w.-]+/state/selected/part-[\w.-]+\.parquet",
    "staged records": r"_replays/[\w.-]+/state/staging/part-[\w.-]+",
    "made by Spark": r"_\w+/[\w./-]*_SUCCESS",
    "index manifest": r"_index/manifest\.json",
    "index run": r"_index/(ids|streams)-[0-9a-f]{32}",
}


def kind_of(name: str) -> str | None:
    """The kind of a file, by its name in the store."""
    return next((kind for kind, pattern in KINDS.items() if re.fullmatch(pattern, name)), None)


def empty(_: Site, path: Path) -> None:
    path.write_bytes(b"")


def cut_short(_: Site, path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garbage(_: Site, path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 8)


def huge(_: Site, path: Path) -> None:
    """A huge file, sparse, so that it costs nothing."""
    os.truncate(path, 300 << 20)


def deep(_: Site, path: Path) -> None:
    path.write_bytes(b'{"a":' + b"[" * 200_000)


def deep_and_whole(_: Site, path: Path) -> None:
    path.write_bytes(b"[" * 200_000 + b"]" * 200_000)


def other_json(_: Site, path: Path) -> None:
    path.write_bytes(b'{"formatVersion": [], "owner": 7, "version": "x", "commitInfo": 1, "add": []}\n')


def linked(site: Site, path: Path) -> None:
    path.unlink()
    path.symlink_to(site.canary)


def other_parquet(_: Site, path: Path) -> None:
    pq.write_table(pa.table({"canary": [1, 2, 3]}), path)


def gone(_: Site, path: Path) -> None:
    path.unlink()


ANY: dict[str, Change] = {
    "empty": empty,
    "cut short": cut_short,
    "garbage": garbage,
    "huge": huge,
    "a link": linked,
    "gone": gone,
}
DOCUMENT: dict[str, Change] = {"deep": deep, "deep and whole": deep_and_whole, "other": other_json}
PARQUET: dict[str, Change] = {"other columns": other_parquet}


def _edit(change: Callable[[dict[str, Any], Site], None]) -> Change:
    def edit(site: Site, path: Path) -> None:
        document = json.loads(path.read_bytes())
        change(document, site)
        path.write_text(json.dumps(document))

    return edit


def _say(forge: Callable[[Path, Site], list[forgeries.Action]]) -> Change:
    """Additional actions in a commit."""

    def say(site: Site, path: Path) -> None:
        actions = forge(path.parents[1], site)
        with path.open("a") as file:
            file.writelines(json.dumps(action) + "\n" for action in actions)

    return say


def _column(table: Path) -> str:
    fields = json.loads(forgeries.last(table, "metaData")["schemaString"])["fields"]
    return next(field["name"] for field in fields if field["type"] == "string")


def _note(text: str) -> Change:
    def note(_: Site, path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "commitInfo" in line:
                line["commitInfo"]["userMetadata"] = text
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return note


def _rows(change: Callable[[pa.Table, Site], pa.Table]) -> Change:
    """Other rows with the same columns."""

    def rows(site: Site, path: Path) -> None:
        pq.write_table(change(pq.ParquetFile(path).read(), site), path)

    return rows


def _with(name: str, value: Callable[[Site], Any]) -> Callable[[pa.Table, Site], pa.Table]:
    """Each row with another value in a column, if the file has it."""

    def change(rows: pa.Table, site: Site) -> pa.Table:
        if name not in rows.column_names:
            return rows
        at = rows.column_names.index(name)
        field = rows.schema.field(at)
        return rows.set_column(at, field, pa.array([value(site)] * rows.num_rows, field.type))

    return change


def _elsewhere(site: Site) -> str:
    return f"file://{site.canary}"


def _claims_elsewhere(rows: pa.Table, site: Site) -> pa.Table:
    for name, value in (("payload_uri", _elsewhere(site)), ("payload_sha256", None), ("payload", None)):
        rows = _with(name, lambda _, value=value: value)(rows, site)
        if name not in rows.column_names:
            rows = rows.append_column(name, pa.array([value] * rows.num_rows, pa.string()))
    return rows


def _planned_elsewhere(rows: pa.Table, site: Site) -> pa.Table:
    """The next batch reads another file."""
    if "modified_at" not in rows.column_names:
        return rows
    at = rows.column_names.index("batch")
    later = pc.add(rows["batch"], 1000).cast(rows.schema.field(at).type)
    return _with("uri", _elsewhere)(rows.set_column(at, rows.schema.field(at), later), site)


def _checkpoint(change: Callable[[dict[str, Any], Site], None]) -> Change:
    def forge(site: Site, path: Path) -> None:
        table = pq.ParquetFile(path).read()
        actions = table.to_pylist()
        for action in actions:
            change(action, site)
        pq.write_table(pa.Table.from_pylist(actions, schema=table.schema), path)

    return forge


def _foreign_file(action: dict[str, Any], site: Site) -> None:
    if action["add"]:
        action["add"]["path"] = _elsewhere(site)


def _constrained(action: dict[str, Any], _: Site) -> None:
    if action["metaData"]:
        action["metaData"]["configuration"] = [("delta.constraints.c", EXPRESSION + " is not null")]


def _sums_say(site: Site, path: Path) -> None:
    table = path.parents[1]
    said = forgeries.generated(table, _column(table), EXPRESSION)["metaData"]
    forgeries.in_sums(path, metadata=said, protocol=forgeries.protocol(1, 4)["protocol"])


OWN: dict[str, dict[str, Change]] = {
    "marker": DOCUMENT
    | {
        "another's": _edit(lambda marker, _: marker["owner"].update(name="other")),
        "newer": _edit(lambda marker, _: marker.update(formatVersion=10**30)),
    },
    "last run": DOCUMENT
    | {
        "tables elsewhere": _edit(lambda said, _: said["tables"].update({"../canary": {"id": "1", "version": 0}})),
        "beyond": _edit(lambda said, _: said["tables"]["messages"].update(version=10**9)),
    },
    "translators": DOCUMENT,
    "tombstone key": {},
    "claim check": {"other bytes": lambda _, path: path.write_bytes(b"y" * path.stat().st_size) and None},
    "commit": {
        "deep": deep,
        "expression": _say(
            lambda table, _: [forgeries.generated(table, _column(table), EXPRESSION), forgeries.protocol(1, 4)]
        ),
        "constraint": _say(
            lambda table, _: [forgeries.with_property(table, "delta.constraints.c", EXPRESSION + " is not null")]
        ),
        "default": _say(
            lambda table, _: [forgeries.with_column_metadata(table, _column(table), EXISTS_DEFAULT=EXPRESSION)]
        ),
        "features": _say(lambda *_: [forgeries.protocol(3, 7, "catalogManaged", "v2Checkpoint", "deletionVectors")]),
        "a file elsewhere": _say(lambda table, site: [forgeries.with_file(table, _elsewhere(site))]),
        "a file above": _say(lambda table, _: [forgeries.with_file(table, "../../../canary")]),
        "a removal elsewhere": _say(
            lambda _, site: [
                {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}
                for path in (_elsewhere(site), "../../../canary", str(site.canary))
            ]
        ),
        "a huge note": _note("x" * (4 << 20)),
        "a deep note": _note("[" * 100_000),
        "impossible counts": _note('{"run":"r","totals":{"stored":-7,"received":1e40}}'),
    },
    "check point": PARQUET | {"a file elsewhere": _checkpoint(_foreign_file), "constraint": _checkpoint(_constrained)},
    "last check point": DOCUMENT | {"beyond": lambda _, path: path.write_text('{"version":999999,"size":1}') and None},
    "sums": {"deep": deep, "expression": _sums_say},
    "messages": PARQUET | {"claims elsewhere": _rows(_claims_elsewhere)},
    "history": PARQUET
    | {
        "another's positions": _rows(_with("global_position", lambda _: 2**63 - 1)),
        "enormous": _rows(_with("attempt", lambda _: 2**31 - 1)),
    },
    "rows": PARQUET
    | {
        "planned elsewhere": _rows(_planned_elsewhere),
        "enormous": _rows(_with("next_position", lambda _: 2**63 - 1)),
        "negative": _rows(_with("next_position", lambda _: -5)),
        "rules": _rows(_with("rules", lambda _: "[" * 50_000)),
    },
    "plan": DOCUMENT
    | {
        "another folder": _edit(lambda plan, _: plan["preview"].update(id="../payloads")),
        "archived elsewhere": _edit(
            lambda plan, site: plan["task"]["archive"].update(uri=f"file://{site.folder}/stolen")
        ),
    },
    "frozen rows": PARQUET | {"claims elsewhere": _rows(_with("payload_uri", _elsewhere))},
    "cursor": DOCUMENT
    | {
        "ahead": _edit(lambda cursor, _: cursor.update(globalPosition=10**9)),
        "negative": _edit(lambda cursor, _: cursor.update(globalPosition=-7)),
        "another's": _edit(lambda cursor, _: cursor.update(store="another")),
        "a round elsewhere": _edit(lambda cursor, _: cursor.update(round={"number": 1, "until": 10**9})),
    },
    "refused": DOCUMENT
    | {
        "another's": _edit(lambda refused, _: refused.update(store="another")),
        "enormous": _edit(lambda refused, _: refused.update(positions=[2**80])),
    },
    "topic": DOCUMENT | {"enormous": _edit(lambda topic, _: topic.update(partitions=10**9))},
    "consumers": DOCUMENT
    | {
        "ahead": _edit(lambda state, _: state.update(globalPosition=10**9)),
        "negative": _edit(lambda state, _: state.update(globalPosition=-7)),
        "many slots": _edit(lambda state, _: state.update(slots=10**9)),
        "another's": _edit(lambda state, _: state.update(store="another", generation="another")),
    },
    "frozen replay": DOCUMENT | {"another task": _edit(lambda frozen, _: frozen.update(task="0"))},
    "chunk": DOCUMENT
    | {
        "from elsewhere": _edit(lambda chunk, _: chunk["parts"][0].update(staged="../../../canary")),
        "to elsewhere": _edit(lambda chunk, _: chunk["parts"][0].update(name="../../../../stolen")),
        "beyond": _edit(lambda chunk, _: chunk.update(nextGrain=10**9)),
    },
    "listed": PARQUET,
    "staged records": {},
    "made by Spark": {},
    "index manifest": DOCUMENT
    | {
        "removed elsewhere": _edit(lambda manifest, _: manifest.update(superseded=["../../../canary"])),
        "runs elsewhere": _edit(lambda manifest, _: manifest["ids"][0].update(name="../messages")),
        "another's": _edit(lambda manifest, _: manifest.update(table="another")),
        "beyond": _edit(lambda manifest, _: manifest.update(version=10**9)),
        "longer than it is": _edit(lambda manifest, _: manifest["ids"][0].update(count=10**9)),
    },
    "index run": {"other bytes": lambda _, path: path.write_bytes(b"y" * path.stat().st_size) and None},
}
"""In addition to the replacements of all kinds."""

FIRST = {
    "marker": "deep and whole",
    "last run": "tables elsewhere",
    "translators": "other",
    "tombstone key": "cut short",
    "claim check": "other bytes",
    "commit": "expression",
    "check point": "a file elsewhere",
    "last check point": "beyond",
    "sums": "expression",
    "messages": "claims elsewhere",
    "history": "other columns",
    "rows": "planned elsewhere",
    "plan": "archived elsewhere",
    "frozen rows": "claims elsewhere",
    "cursor": "negative",
    "refused": "enormous",
    "topic": "enormous",
    "consumers": "many slots",
    "frozen replay": "deep",
    "chunk": "from elsewhere",
    "listed": "other columns",
    "staged records": "garbage",
    "made by Spark": "garbage",
    "index manifest": "removed elsewhere",
    "index run": "cut short",
}
"""The replacement of each kind that each run of the tests includes."""

USED_BY = {
    "last run": ("ingest", "purge"),
    "translators": ("ingest", "read"),
    "tombstone key": ("ingest", "purge"),
    "claim check": ("read", "replay"),
    "last check point": ("ingest", "maintain"),
    "sums": ("ingest", "replay", "maintain"),
    "messages": ("read", "replay", "purge"),
    "history": ("read", "purge", "maintain"),
    "rows": ("ingest",),
    "plan": ("purge", "maintain"),
    "frozen rows": ("purge",),
    "cursor": ("subscription",),
    "refused": ("subscription",),
    "topic": ("ingest", "purge"),
    "consumers": ("purge", "consume"),
    "frozen replay": ("replay into", "maintain"),
    "chunk": ("replay into",),
    "listed": ("replay into",),
    "staged records": ("replay into",),
    "made by Spark": ("purge",),
    "index manifest": ("ingest", "maintain"),
    "index run": ("ingest", "maintain"),
}
"""The runs that read a kind of file; all read the others."""


def changes(kind: str) -> dict[str, Change]:
    """All replacements of a kind of file."""
    return ANY | OWN[kind]


def replaced(site: Site, name: str, change: str) -> None:
    """Replace a file of the store."""
    kind = kind_of(name)
    assert kind is not None
    changes(kind)[change](site, site.store / name)
