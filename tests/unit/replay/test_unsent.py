"""What a replay that an earlier release began reports about messages that it could not send."""

import pytest

from messagestore_core.contract.replay import ReplayProgress
from messagestore_jobs.frozen.replays import Chunk


@pytest.mark.parametrize(("written", "read"), [("7", (7,)), ("null", ()), ("[7, 9]", (7, 9))])
def test_the_failed_position_of_an_earlier_release_is_read_as_a_list(written: str, read: tuple[int, ...]) -> None:
    progress = ReplayProgress.model_validate_json(f'{{"failed": 1, "firstFailedPosition": {written}}}')
    assert progress.first_failed_positions == read
    counts = '"number": 0, "nextGrain": 1, "sent": 1, "failed": 1, "bytes": 1, "lastGlobalPosition": 9, "parts": []'
    assert Chunk.model_validate_json(f'{{{counts}, "firstFailed": {written}}}').first_failed == read
