"""Whether a store needs maintenance, from what its last report says of it."""

from messagestore_jobs.contract.run_report import TableState

SMALL_FILES = 64
VERSIONS_SINCE_CHECKPOINT = 200
VERSIONS_SINCE_MAINTENANCE = 1000


def maintenance_due(table: TableState, maintained_version: int | None) -> str | None:
    """Why a store needs maintenance, in words; None where it does not.

    Args:
        table: the newest state that is known.
        maintained_version: ``table_version_after`` of the last maintenance; None where there has been none.
    """
    if table.small_files >= SMALL_FILES:
        return f"{table.small_files} of its {table.files} files are small"
    if table.versions_since_checkpoint >= VERSIONS_SINCE_CHECKPOINT:
        return f"{table.versions_since_checkpoint} commits have been made since its last check point"
    versions = table.version - (maintained_version or 0)
    if versions >= VERSIONS_SINCE_MAINTENANCE:
        return f"{versions} commits have been made since its last maintenance"
    return None
