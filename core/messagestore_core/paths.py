"""JSON paths as manifests write them: ``$``, ``.name``, ``['name']``, ``[n]``, and nothing else."""

import re

_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\.)*)'\]|\[([0-9]{1,9})\]")


def steps(path: str) -> list[str | int]:
    """Return the steps of a path: names, and indexes of arrays.

    Raises:
        ValueError: the text is no such path.
    """
    if not path.startswith("$"):
        raise ValueError(f"{path!r} is no path: it starts with $")
    parts: list[str | int] = []
    at = 1
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise ValueError(f"{path!r} is no path from {path[at:]!r} on: steps are .name, ['name'] and [n]")
        name, quoted, index = step.groups()
        parts.append(int(index) if index is not None else name or re.sub(r"\\(.)", r"\1", quoted))
        at = step.end()
    return parts
