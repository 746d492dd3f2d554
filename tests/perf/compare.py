"""Whether two sides stored the same rows, at the same positions."""

import duckdb
from deltalake import DeltaTable


def digest(uri: str) -> dict[str, int]:
    """A digest of each table's rows, in any order, without times of writing."""
    path = uri.removeprefix("file://")
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    rows = connection.execute(
        """select count(*), sum(hash(message_id, stream_name, position, global_position, type, correlation_id,
             headers::varchar, payload, payload_size, payload_sha256, time)::hugeint % 1000000007)
           from read_parquet(?, union_by_name = true)""",
        [DeltaTable(f"{path}/messages").file_uris()],
    ).fetchone()
    dead = connection.execute(
        "select count(*), sum(hash(raw)::hugeint % 1000000007) from read_parquet(?)",
        [DeltaTable(f"{path}/dead_letters").file_uris()],
    ).fetchone()
    return {"messages": rows[0], "rows": int(rows[1]), "deadLetters": dead[0], "raw": int(dead[1])}
