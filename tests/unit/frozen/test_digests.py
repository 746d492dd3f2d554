"""Work that an earlier release began continues under this one: the same task has the same digest."""

from datetime import timedelta

from messagestore_core.contract.destinations import FilesDestination
from messagestore_core.contract.purge import Archive, PurgeTask, Rule, Scrub
from messagestore_core.contract.replay import ReplayTask, Selection
from messagestore_jobs.frozen.replays import digest
from messagestore_jobs.purge.selection import spec_digest

# The digests of the release before. A digest leaves out a new field that has its default.
REPLAY = "ab93281a5da1cc3ed231e29e671bc1f74300c1c3a469b1275e8f99230f1768a2"
PURGE = "4c7e650103793ac6be03e38aee0ce05858490360e463a43a599a0faa3eb98ed5"


def test_a_replay_that_an_earlier_release_began_is_known_as_the_same() -> None:
    to = FilesDestination(uri="file:///out")
    task = ReplayTask(job_id="again", select=Selection(statuses=("FAILED",)), destination=to)
    assert digest(task, "file:///store") == REPLAY


def test_a_preview_that_waits_since_an_earlier_release_is_known_as_the_same() -> None:
    task = PurgeTask(
        rules=(Rule(name="old", max_age=timedelta(days=30)),),
        archive=Archive(uri="file:///archive"),
        scrub=Scrub(payload_paths=("$.a",)),
    )
    assert spec_digest(task) == PURGE
