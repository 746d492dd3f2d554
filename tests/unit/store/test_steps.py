"""Whatever a run writes is written within a step of a store that it holds."""

import ast
from collections.abc import Iterator
from pathlib import Path

import messagestore_core
import messagestore_jobs

STEPS = {"step", "committing", "ending"}
FUNCTIONS = {"write_deltalake", "empty_commit", "append_rows", "write_document"}
METHODS = {"delete", "delete_folder", "delete_file", "copy_files", "move", "execute"}
METHODS |= {"write_rows", "update_rows", "delete_rows", "swap", "create", "commit", "commit_by_copy", "publish"}
METHODS |= {"compact", "create_checkpoint", "cleanup_metadata", "vacuum", "restore"}
WITHIN_A_STEP = {
    "delete.py _delete",
    "frozen/staged.py replace",
    "index/sorted_runs.py write_sorted_run",
    "maintain.py _vacuum",
    "replay/chunks.py _save",
    "replay/chunks.py StagedObjects.move",
    "source/kafka_topics.py create",
    "store/delta_log.py append_rows",
    "store/delta_log.py empty_commit",
    "store/dead_letters.py mark_redriven",
    "store/dead_letters.py remove",
    "store/bucket.py Bucket.delete",
    "store/fence.py HeldStore.delete_rows",
    "store/fence.py HeldStore.commit",
    "store/fence.py HeldStore.write_rows",
    "store/fence.py HeldStore.write_rows.write",
    "store/claim.py _is_committed",
    "store/claim.py _is_committed.write",
    "store/files.py ReadFiles._mark_cut",
    "store/files.py ReadFiles.write_down.write",
    "store/log_copy.py CopiedTable.commit",
    "store/log_copy.py CopyingStore.commit_by_copy",
    "store/log_copy.py LogCopy.publish",
    "store/objects.py Objects.create",
    "store/objects.py Objects.delete",
    "store/objects.py Objects.delete_last",
    "store/objects.py Objects.swap",
    "store/objects.py Objects.writing",
}
"""Functions that are called within a step, write a local file, or only look (a dry run)."""


def outside(node: ast.AST, named: tuple[str, ...] = ()) -> Iterator[str]:
    """The functions that write outside of a step."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.With) and any(called(item.context_expr) in STEPS for item in child.items):
            continue
        if called(child) in FUNCTIONS | METHODS or of_spark(child):
            yield ".".join(named)
        deeper = (*named, child.name) if isinstance(child, ast.FunctionDef | ast.ClassDef) else named
        yield from outside(child, deeper)


def called(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name if name in FUNCTIONS | STEPS else None
        case ast.Call(func=ast.Attribute(attr=name)):
            return name
    return None


def of_spark(node: ast.AST) -> bool:
    """Whether it is a DataFrame's ``write``, whose methods write."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "write"


def test_nothing_is_written_outside_of_a_step() -> None:
    roots = [Path(package.__file__).parent for package in (messagestore_core, messagestore_jobs) if package.__file__]
    found = {
        f"{path.relative_to(root)} {function}"
        for root in roots
        for path in root.rglob("*.py")
        for function in outside(ast.parse(path.read_text()))
    }
    assert found == WITHIN_A_STEP


def test_a_write_outside_of_a_step_is_found() -> None:
    code = "def f(store):\n    with store.step('a'):\n        objects.delete('a')\n    rows.write.parquet('b')\n"
    assert list(outside(ast.parse(code))) == ["f"]
