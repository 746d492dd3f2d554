"""Starts the process that checks predicates, asks it, and kills it when it is stuck."""

import asyncio
import json
import sys
from collections.abc import Sequence

from messagestore_operator.tenancy.predicates import TOO_LONG, Predicate, Refused

_START_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
"""The process has its own lower limit of CPU time; this one is for work that it can't interrupt."""
_MAX_ANSWER = 2**20
_UNREADABLE = "can't be read: write it shorter, or with less nesting"
WORKER = (sys.executable, "-m", "messagestore_operator.tenancy.predicate_worker")


class PredicateProcess:
    """One process, which answers one request after the other; only one task at a time may use it.

    Args:
        answer_seconds: after this time without an answer the process is killed.
    """

    def __init__(self, command: Sequence[str] = WORKER, answer_seconds: float = _ANSWER_SECONDS) -> None:
        self._command = command
        self._answer_seconds = answer_seconds
        self._process: asyncio.subprocess.Process | None = None

    async def first_refused(self, predicates: Sequence[Predicate]) -> Refused | None:
        """The first of a resource's predicates that is refused, and why.

        Raises:
            OSError: the process can't be started.
        """
        for _ in range(2):
            process = await self._started()
            try:
                async with asyncio.timeout(self._answer_seconds):
                    return await self._answer(process, predicates)
            except TimeoutError:
                await self.end()
                return 0, TOO_LONG
            except (EOFError, ConnectionError, ValueError):
                # Something else may have ended the process, so try once more.
                await self.end()
        return 0, _UNREADABLE

    async def end(self) -> None:
        """End the process; the next request starts another."""
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdin=pipe, stdout=pipe, limit=_MAX_ANSWER)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await _line(self._process)
        except (TimeoutError, EOFError) as error:
            await self.end()
            raise OSError("the process that reads predicates doesn't start") from error
        return self._process

    async def _answer(self, process: asyncio.subprocess.Process, predicates: Sequence[Predicate]) -> Refused | None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(predicates).encode() + b"\n")
        await process.stdin.drain()
        match json.loads(await _line(process)):
            case None:
                return None
            case [int(index), str(words)] if 0 <= index < len(predicates):
                return index, words
        raise ValueError("the answer is about none of the predicates")


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    return line
