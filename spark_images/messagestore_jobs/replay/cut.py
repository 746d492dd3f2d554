"""How a selection is cut: into chunks, which are sent one after the other, and each into objects."""

from collections.abc import Sequence
from dataclasses import dataclass

from messagestore_jobs.replay.order import Key
from messagestore_jobs.replay.state import Frozen, Grain

_CHUNK_ROWS = 1_000_000
_CHUNK_BYTES = 2 << 30
_CHUNK_CLAIMS = 10_000
_OBJECT_ROWS = 250_000
_OBJECT_BYTES = 128 << 20
_PACED_SECONDS = 2


@dataclass(frozen=True)
class Size:
    """At most so much, if it is more than one grain."""

    messages: float
    bytes: int
    claims: int = _CHUNK_CLAIMS


@dataclass(frozen=True)
class Stretch:
    """What one chunk sends: all that is selected from ``cuts[0]`` on and before ``end``; a cut begins an object."""

    cuts: tuple[Key, ...]
    end: Key | None
    next_grain: int
    messages: int
    claims: int
    last_global_position: int | None


def chunk_size(messages_per_second: float | None, cores: int) -> Size:
    """A few large chunks, or with a rate limit one every few seconds."""
    if messages_per_second is None:
        return Size(_CHUNK_ROWS * cores, _CHUNK_BYTES * cores, _CHUNK_CLAIMS)
    return Size(max(1, messages_per_second * _PACED_SECONDS), _CHUNK_BYTES)


def next_stretch(frozen: Frozen, first: int, size: Size, cores: int) -> Stretch:
    """The grains from ``first`` on that make up one chunk."""
    grains = _up_to(frozen.grains, first, size)
    total = Size(sum(g.messages for g in grains), sum(g.bytes for g in grains))
    following = first + len(grains)
    # Large chunks keep all cores busy, small ones are one object.
    parts = cores if total.messages > _OBJECT_ROWS else 1
    objects = Size(min(_OBJECT_ROWS * 4, -(-total.messages // parts)), _OBJECT_BYTES)
    return Stretch(
        cuts=_object_starts(grains, objects),
        end=frozen.grains[following].start if following < len(frozen.grains) else frozen.end,
        next_grain=following,
        messages=int(total.messages),
        claims=sum(g.claims for g in grains),
        last_global_position=max((g.last_global_position or 0 for g in grains), default=None),
    )


def _up_to(grains: Sequence[Grain], first: int, size: Size) -> Sequence[Grain]:
    """As many grains from ``first`` on as the size allows, and at least one."""
    messages = held = claims = 0
    for i in range(first, len(grains)):
        grain = grains[i]
        messages, held, claims = messages + grain.messages, held + grain.bytes, claims + grain.claims
        if i > first and (messages > size.messages or held > size.bytes or claims > size.claims):
            return grains[first:i]
    return grains[first:]


def _object_starts(grains: Sequence[Grain], size: Size) -> tuple[Key, ...]:
    starts = []
    at = 0
    while at < len(grains):
        starts.append(grains[at].start)
        at += len(_up_to(grains, at, size))
    return tuple(starts)
