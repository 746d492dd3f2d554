"""Streams that several tests begin with, each in the same state."""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from support.crash import forget_tables
from support.ingests import Stream

Kind = TypeVar("Kind", bound=Stream)


@dataclass(frozen=True)
class Kept(Generic[Kind]):
    """A stream as it once was; the runs before that happen once."""

    stream: Kind
    copy: Path

    @classmethod
    def of(cls, stream: Kind, copy: Path) -> "Kept[Kind]":
        """Keep a stream as it is now; the copy's folder must not exist."""
        shutil.copytree(stream.folder, copy)
        return cls(stream, copy)

    def again(self) -> Kind:
        """The stream as it was, in the same folder, as its tables name their source files."""
        shutil.rmtree(self.stream.folder)
        shutil.copytree(self.copy, self.stream.folder)
        forget_tables(self.stream.spark)
        return replace(self.stream)
