"""Whether the buckets of a run can be reached at all, asked before anything is read or written."""

from collections.abc import Sequence

from deltalake import DeltaTable

from messagestore_jobs.store.objects import delta_uri
from messagestore_jobs.store.storage import current

_AT_ONCE = {"max_retries": "4", "retry_timeout": "20s", "connect_timeout": "5s"}


def check_reachable(uris: Sequence[str]) -> None:
    """Ask each of the folders on object storage for what lies in it.

    pyarrow takes a bucket that is not there for an empty one, and a job would say that there was nothing to do.

    Raises:
        OSError: one is refused, missing, or out of reach; at once, where a job would try again for minutes.
    """
    for uri in uris:
        DeltaTable.is_deltatable(delta_uri(uri), current().delta_options(uri) | _AT_ONCE)
