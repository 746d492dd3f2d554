"""What lies where in a store's folder, besides a folder a table.

Names of state, such as ``placed``, are those of earlier releases too, which may have written it.
"""

import re

MARKER = "_messagestore.json"
"""Says whose store the folder is, and in which format."""
TOMBSTONE_KEY = "_tombstone_key"
TRANSLATORS = "_translators.json"
LAST_RUN = "_ended.json"
"""What the last run left, which tells the next one that nothing is to do: see ``ended``."""
PARTIAL = ".partial"
"""The end of the name of a local object that is not whole yet."""
LOG = "_delta_log"
"""The folder of a table's log, in the table's folder."""
LAST_CHECKPOINT = "_last_checkpoint"
"""In a log: names the version of the last checkpoint."""

CLAIM_CHECKS = "payloads"
CLAIM_CHECK_NAME = r"[0-9]{20}(?:-[0-9a-f-]+)?"
"""A global position and the run that wrote it; each scrub of the payload adds to it. Earlier releases name no run."""

INDEX = "_index"
INDEX_MANIFEST = "manifest.json"

PURGES = "_purges"
"""A folder for each purge that is frozen: rows, notes, and the plan, without which the rest doesn't count."""
PLAN = "plan.json"
REWRITTEN_NOTE = "rewritten-"
"""The start of the names of notes in a plan's folder; each lists the claim checks that a run rewrote for a scrub."""

REPLAYS = "_replays"
"""A folder for each replay: its state and, once it has ended, its outcome alone."""
ENDED = "ended.json"
STATE = "state"
"""The folder of a replay's state; the names below are in it."""
FROZEN = "frozen.json"
SELECTED = "selected"
ORDER = "placed"
ENDING = "ending.json"
CHUNKS = "chunks"
STAGING = "staging"
SENT = "sent.json"
"""How far an HTTP endpoint has answered."""
RECORDS = "records"
"""The folder, in a replay's own, of the objects that a target stream is about to ingest."""

CURSORS = "_cursors"
"""A folder for each subscription: how far it has sent. It outlives its resource."""
CURSOR = "cursor.json"
REFUSED = "refused"
"""A folder in that of a cursor: positions of messages that no topic takes, and which another destination gets."""

TOPICS = "_topics"
"""A folder for each topic whose records are kept, by the topic's id: what is needed to put it back."""
TOPIC = "topic.json"
"""Its partitions and configuration."""
GROUPS = "groups.json"
"""The offsets that consumer groups have committed."""
RESTORED = "restored.json"
"""Up to where its records are of a replay that puts back another topic."""

CONSUMERS = "_consumers"
"""A folder for each name of consumers, which applications write: what they agree on, their slots, and who is there."""
GROUP = "consumer.json"
MEMBER = re.compile(r"member-([0-9a-f]{32})\.json")
SLOTS_AT_MOST = 1024

_PART = "(part-[^/]+|_SUCCESS)"
_HALF_WRITTEN = "_temporary/[0-9]+/_temporary/attempt_[0-9a-z_]+/part-[^/]+"
"""What a task of Spark has not committed yet."""
_RUN_STATE = re.compile(
    rf"{PURGES}/[^/]+/({re.escape(PLAN)}|rows-[0-9]+/{_PART})"
    rf"|{REPLAYS}/[^/]+/({re.escape(ENDED)}|({STATE}/{STAGING}|{RECORDS})/part-[^/]+)"
    rf"|{REPLAYS}/[^/]+/{STATE}/({STAGING}|{SELECTED}|{ORDER})/{_HALF_WRITTEN}"
    rf"|{REPLAYS}/[^/]+/{STATE}/({re.escape(FROZEN)}|{re.escape(SENT)}|{CHUNKS}/[0-9]+\.json|({SELECTED}|{ORDER})/{_PART})"
    rf"|{INDEX}/((ids|streams|purged)-[0-9a-f]{{32}}|{re.escape(INDEX_MANIFEST)})"
    rf"|{CURSORS}/[^/]+/({re.escape(CURSOR)}|{REFUSED}/[0-9]+-[0-9]+-[0-9]+\.json)"
    rf"|{TOPICS}/[^/]+/({re.escape(TOPIC)}|{re.escape(GROUPS)}|{re.escape(RESTORED)})"
    rf"|{CONSUMERS}/[^/]+/({re.escape(GROUP)}|slot-[0-9]{{4}}\.json|{MEMBER.pattern})"
    rf"|{re.escape(LAST_RUN)}"
)
_FROZEN_ROWS = re.compile(rf"{PURGES}/[^/]+/rows-[0-9]+/part-[^/]+")
_STAGED = re.compile(rf"{REPLAYS}/[^/]+/({STATE}/{STAGING}|{RECORDS})/part-[^/]+")


def plan_folder(preview: str) -> str:
    """The folder of a purge, by the id of its preview."""
    return f"{PURGES}/{preview}"


def chunk_name(number: int) -> str:
    """The document of a sealed chunk, in a replay's state."""
    return f"{CHUNKS}/{number:08d}.json"


def slot_name(number: int) -> str:
    """The object of a slot, in the folder of its consumers."""
    return f"slot-{number:04d}.json"


def member_name(owner: str) -> str:
    """The object by which a consumer says that it is there."""
    return f"member-{owner}.json"


def is_run_state(name: str) -> bool:
    """Whether an object is state of purges, replays, subscriptions, topics or consumers, of the index or last run."""
    return _RUN_STATE.fullmatch(name.removesuffix(PARTIAL)) is not None


def is_frozen_rows(name: str) -> bool:
    """Whether an object has rows that a purge has frozen."""
    return _FROZEN_ROWS.fullmatch(name) is not None


def is_staged(name: str) -> bool:
    """Whether an object has records of a replay that are still to be sent, and is whole."""
    return _STAGED.fullmatch(name) is not None and not name.endswith(PARTIAL)


def entry_name(version: int) -> str:
    """The name of an entry in a table's log."""
    return f"{version:020d}.json"
