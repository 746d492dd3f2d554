"""What the log alone tells of a column of ``messages``."""

import pyarrow as pa
import pyarrow.compute as pc

from messagestore_jobs.store.history import open_table


def may_hold(uri: str, column: str) -> bool:
    """Whether any message can have a value in a column; files that tell nothing of it may."""
    files = pa.table(open_table(uri, "messages").get_add_actions(flatten=True))
    if not files.num_rows:
        return False
    if f"null_count.{column}" not in files.column_names:
        return True
    nulls = pc.fill_null(files[f"null_count.{column}"], -1)
    return bool(pc.any(pc.not_equal(nulls, files["num_records"])).as_py())
