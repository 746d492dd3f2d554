"""Moving what Spark wrote to the names it is known by."""

import os
import re

from pyarrow import fs

from messagestore_jobs.store.objects import Objects

_SPARK_PART = re.compile(r"part-(\d+)-")


class Places(Objects):
    """The objects under one URI, some of which Spark writes."""

    def staged(self, below: str) -> dict[int, tuple[str, int]]:
        """What Spark wrote into a folder: name (relative to the URI) and bytes, by number of its task."""
        selector = fs.FileSelector(self._path(below), allow_not_found=True)
        found = {}
        for info in self._fs.get_file_info(selector):
            part = _SPARK_PART.match(info.base_name)
            if part and info.size:
                found[int(part[1])] = (f"{below}/{info.base_name}", info.size)
        return found

    def move(self, name: str, to: str) -> None:
        """Give an object another name, and this moment as its time; where it has the name already, nothing is done."""
        if not self.exists(name):
            return
        self._make_parent(self._path(to))
        if self._local:
            # On object storage a copy has a time of its own; here tasks that ended in another order would show.
            os.utime(self._path(name))
        self._fs.move(self._path(name), self._path(to))
