"""The figures of resources as text for Prometheus. The text of each resource is made once for each of its versions.

Thousands of resources have 100,000 series, and between two scrapes few of them change.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from prometheus_client.utils import floatToGoString

from messagestore_operator.api import Resource
from messagestore_operator.cluster.cache import Cache
from messagestore_operator.cluster.resource_metrics import FIGURES, Figure, Since, samples
from messagestore_operator.kube.objects import ResourceKey

_BETWEEN = "\n\n"
"""Between the lines of two figures: no line is empty, and none has a line break in it."""
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


class Drawn(NamedTuple):
    """The lines of one resource at one version, in little memory."""

    version: str | None
    figures: bytes
    """The number of each figure in ``FIGURES`` whose lines follow in ``text``."""
    text: str
    ages: tuple[tuple[int, str, float], ...]
    """Series that grow with time: the figure's number, name and labels, and since when."""


class ResourcePage:
    """The lines of all resources of a cache, for one thread at a time."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._drawn: dict[ResourceKey, Drawn] = {}

    def text(self, now: datetime) -> str:
        """The lines of all, below the head of each figure."""
        self._draw()
        return page(self._drawn.values(), now)

    def _draw(self) -> None:
        """Draw those that have changed."""
        drawn: dict[ResourceKey, Drawn] = {}
        for key in self._cache.resource_keys():
            known = self._drawn.get(key)
            if known is None or known.version != self._cache.version_of(key):
                resource = self._cache.peek(key)
                known = drawing(resource) if resource is not None else None
            if known is not None:
                drawn[key] = known
        self._drawn = drawn


def drawing(resource: Resource) -> Drawn:
    """The lines of a resource."""
    lines: dict[int, list[str]] = {}
    ages = []
    for name, labels, value in samples(resource):
        if value is None:
            continue
        number, template = _TEMPLATES[name]
        series = template % tuple(map(_escaped, labels))
        if isinstance(value, Since):
            ages.append((number, series, value.at))
        else:
            lines.setdefault(number, []).append(_line(series, value))
    text = _BETWEEN.join("\n".join(some) for some in lines.values())
    return Drawn(resource.metadata.resource_version, bytes(lines), text, tuple(ages))


def page(resources: Iterable[Drawn], now: datetime) -> str:
    """The lines of resources, below the head of each figure."""
    lines, at = [[head] for head in _HEADS], now.timestamp()
    for drawn in resources:
        for number, text in zip(drawn.figures, drawn.text.split(_BETWEEN), strict=False):
            lines[number].append(text)
        for number, series, since in drawn.ages:
            lines[number].append(_line(series, at - since))
    return "\n".join(chain.from_iterable(lines)) + "\n"


@lru_cache(maxsize=10_000)
def _escaped(value: str) -> str:
    return value.translate(_ESCAPED)


def _line(series: str, value: float) -> str:
    number: str = floatToGoString(value)  # type: ignore[no-untyped-call]
    return f"{series} {number}"


def _template(figure: Figure) -> str:
    """A series, with ``%s`` for the value of each label."""
    return figure.full_name + "{" + ",".join(f'{label}="%s"' for label in figure.labels) + "}"


def _head(figure: Figure) -> str:
    return f"# HELP {figure.full_name} {figure.words}\n# TYPE {figure.full_name} {figure.type}"


_TEMPLATES = {figure.name: (number, _template(figure)) for number, figure in enumerate(FIGURES)}
_HEADS = tuple(map(_head, FIGURES))
