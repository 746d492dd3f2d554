"""Laws of consumers, by random histories.

Commits, kills at any write, stalls, purges, erasures, stores put back, cursors reset.
"""

import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from messagestore.consuming import Consumer, reset
from messagestore.errors import ConsumerStateError, CursorAheadError, StorageError
from messagestore_core.store.delta_log import last_note
from messagestore_core.store.fence import HeldStore
from messagestore_core.store.tombstones import add_tombstones
from messagestore_jobs.purge.remains import forget_past
from support.consumers import Clock, Faults, FaultyCursors, KilledError, commit, consumer
from support.stores import make_store, positions, remove_rows

STREAMS = 5
Step = tuple[str, int, int]

NUMBERS = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.integers(1, 12), st.just(0)),
        st.tuples(st.just("receive"), NUMBERS, st.integers(1, 8)),
        st.tuples(st.just("receive"), NUMBERS, st.integers(1, 8)),
        st.tuples(st.just("kill"), NUMBERS, st.just(0)),
        st.tuples(st.just("close"), NUMBERS, st.just(0)),
        st.tuples(st.just("fault"), NUMBERS, st.integers(0, 4**6 - 1)),
        st.tuples(st.just("wait"), st.sampled_from([1, 11, 35, 61]), st.just(0)),
        st.tuples(st.just("purge"), st.integers(0, 60), st.just(0)),
        st.tuples(st.just("erase"), st.integers(0, 60), st.just(0)),
        st.tuples(st.just("copy"), st.just(0), st.just(0)),
        st.tuples(st.just("put_back"), st.just(0), st.just(0)),
        st.tuples(st.just("forget"), st.just(0), st.just(0)),
        st.tuples(st.just("begin_again"), st.just(0), st.just(0)),
    ),
    min_size=5,
    max_size=40,
)


@dataclass
class History:
    """A store with three consumers of one name, and what they have handled."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    last: int = 0
    gone: set[int] = field(default_factory=set)
    """Purged or erased."""
    handled: list[int] = field(default_factory=list)
    consumers: dict[int, tuple[Consumer, Faults]] = field(default_factory=dict)
    copied: tuple[int, set[int]] | None = None
    """The last position and what was gone when the store was copied."""

    def __post_init__(self) -> None:
        self.uri = make_store(self.folder / "store", []).uri

    def step(self, what: str, first: int, second: int) -> None:
        """Make one step."""
        getattr(self, what)(first, second)

    def commit(self, count: int, _: int) -> None:
        commit(self.uri, range(self.last + 1, self.last + count + 1), STREAMS)
        self.last += count

    def receive(self, number: int, count: int) -> None:
        try:
            one = self._there(number)
            for _ in range(count):
                got = one.receive_nowait()
                if got is None:
                    return
                assert got.global_position not in self.gone, "a message was handed out after it was gone"
                self.handled.append(got.global_position)
        except KilledError:
            self.consumers.pop(number, None)
        except StorageError:
            # As its caller may go on, or end.
            if count % 2:
                self.consumers.pop(number, None)

    def kill(self, number: int, _: int) -> None:
        self.consumers.pop(number, None)

    def close(self, number: int, _: int) -> None:
        if number in self.consumers:
            try:
                self.consumers.pop(number)[0].close()
            except (KilledError, StorageError):
                return

    def fault(self, number: int, plan: int) -> None:
        if number in self.consumers:
            self.consumers[number][1].plan = "".join("..balf"[plan // 6**at % 6] for at in range(6))

    def wait(self, seconds: int, _: int) -> None:
        self.clock.pass_by(seconds)

    def purge(self, number: int, _: int) -> None:
        if 0 < number <= self.last and number not in self.gone:
            self._remove(number)

    def erase(self, number: int, _: int) -> None:
        if 0 < number <= self.last and number not in self.gone:
            add_tombstones(HeldStore(self.uri), [(f"m{number}", number)], self.clock(), "erasure")
            self._remove(number)

    def forget(self, *_: int) -> None:
        """Remove the past of the logs, as an erasure does; consumers see it by their next look."""
        for name in ("messages", "tombstones") * 2:
            store = HeldStore(self.uri)
            forget_past(store, name, last_note(store) if name == "messages" else None)
        self.clock.pass_by(11)

    def begin_again(self, *_: int) -> None:
        """Reset the cursors while consumers are stalled."""
        self.clock.pass_by(61)
        with suppress(ConsumerStateError):
            reset(self.uri, "billing", "Beginning", f"{self.folder}/state")
            self.handled = []

    def copy(self, *_: int) -> None:
        shutil.rmtree(self.folder / "copy", ignore_errors=True)
        shutil.copytree(self.folder / "store", self.folder / "copy")
        self.copied = self.last, set(self.gone)

    def put_back(self, *_: int) -> None:
        """Replace the store by its copy; where a cursor is ahead of it, that is told, and the cursors are reset."""
        if self.copied is None:
            return
        self.last, self.gone = self.copied[0], set(self.copied[1])
        shutil.rmtree(self.folder / "store")
        shutil.copytree(self.folder / "copy", self.folder / "store")
        self.consumers.clear()
        self.clock.pass_by(61)
        was_ahead = any(number > self.last for number in self.handled)
        self.handled = [number for number in self.handled if number <= self.last]
        try:
            self.receive(8, 1)
        except CursorAheadError:
            assert was_ahead
            self.consumers.clear()
            reset(self.uri, "billing", "Beginning", f"{self.folder}/state")
            self.handled = []

    def end(self) -> None:
        """Let one more consumer handle what is left."""
        self.consumers.clear()
        self.clock.pass_by(61)
        self.receive(9, 10**6)
        assert 9 in self.consumers

    def _remove(self, number: int) -> None:
        remove_rows(self.uri, "messages", f"global_position = {number}")
        self.gone.add(number)
        # A consumer looks at the tombstones again a second after it read them.
        self.clock.pass_by(1)

    def _there(self, number: int) -> Consumer:
        if number not in self.consumers:
            faults = Faults()
            cursors = FaultyCursors(f"{self.folder}/state/billing", faults)
            self.consumers[number] = consumer(self.uri, self.clock, state=cursors, batch_size=3), faults
        return self.consumers[number][0]


def check(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        history = History(Path(folder))
        for step in steps:
            history.step(*step)
        history.end()
        left = set(positions(history.uri))
        assert left <= set(history.handled), "a message was skipped"
        for stream in range(STREAMS):
            own = [number for number in dict.fromkeys(history.handled) if number % STREAMS == stream]
            assert own == sorted(own), "a stream's messages were first handled in another order"


KNOWN: list[list[Step]] = [
    [("commit", 12, 0), ("receive", 0, 5), ("wait", 61, 0), ("receive", 1, 8), ("receive", 0, 8), ("receive", 1, 8)],
    [("commit", 9, 0), ("receive", 0, 1), ("fault", 0, 4), ("receive", 0, 8), ("wait", 61, 0), ("receive", 1, 8)],
    [("commit", 9, 0), ("receive", 0, 4), ("erase", 7, 0), ("receive", 0, 8), ("purge", 2, 0), ("receive", 1, 8)],
    [("commit", 9, 0), ("receive", 0, 1), ("receive", 1, 1), ("wait", 11, 0), ("receive", 0, 8), ("receive", 1, 8)],
    [("commit", 4, 0), ("copy", 0, 0), ("commit", 5, 0), ("receive", 0, 9), ("put_back", 0, 0), ("commit", 9, 0)],
    [("commit", 9, 0), ("receive", 0, 9), ("begin_again", 0, 0), ("receive", 0, 1), ("wait", 11, 0), ("receive", 0, 1)],
    [("commit", 9, 0), ("receive", 0, 4), ("forget", 0, 0), ("erase", 7, 0), ("receive", 0, 9), ("forget", 0, 0)],
]


@pytest.mark.parametrize("steps", KNOWN)
def test_known_histories_keep_the_laws(steps: list[Step]) -> None:
    check(steps)


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=QUIET, phases=[Phase.generate])
@given(STEPS)
def test_some_histories_keep_the_laws(steps: list[Step]) -> None:
    check(steps)


@pytest.mark.long
@settings(max_examples=150, deadline=None, suppress_health_check=QUIET)
@given(STEPS)
def test_random_histories_keep_the_laws(steps: list[Step]) -> None:
    check(steps)
