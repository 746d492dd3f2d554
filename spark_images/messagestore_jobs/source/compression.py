"""How a file is compressed, by its first bytes, and its content."""

import bz2
import gzip
import zlib
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

Compression = Literal["gzip", "zstd", "bzip2"]
PLAIN = "none"
"""The compression of a file that is not compressed."""
SIGN_BYTES = 10
"""By so many first bytes a compression is known."""
_GZIP = b"\x1f\x8b"
_ZSTD, _SKIPPABLE = b"\x28\xb5\x2f\xfd", b"\x2a\x4d\x18"
_BZIP2 = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
"""The first block of bzip2, or its end where there is no content; text may begin with what stands before it."""
_AT_ONCE = 1 << 16


class DamagedError(Exception):
    """A compressed file is cut short, damaged, or followed by something else."""


def compression_of(start: bytes) -> Compression | None:
    """How a file with these first bytes is compressed, as the extension reads it; None: not at all."""
    if start.startswith(_GZIP):
        return "gzip"
    if start.startswith(_ZSTD) or (0x50 <= start[:1].ljust(1)[0] <= 0x5F and start[1:4] == _SKIPPABLE):
        return "zstd"
    if start.startswith(b"BZh") and b"1" <= start[3:4] <= b"9" and start[4:SIGN_BYTES] in _BZIP2:
        return "bzip2"
    return None


def unpacked(content: Any, compression: Compression) -> Iterator[bytes]:
    """The content of a compressed binary file, at its first byte, in pieces.

    Raises:
        DamagedError: what was unpacked before has been yielded, but for less than a piece.
    """
    try:
        with _unpacking(content, compression) as file:
            while block := file.read1(_AT_ONCE):
                yield block
    except (EOFError, zlib.error, OSError) as error:
        raise DamagedError(str(error)) from None


def _unpacking(content: Any, compression: Compression) -> Any:
    if compression == "gzip":
        return gzip.GzipFile(fileobj=content)
    return bz2.BZ2File(content) if compression == "bzip2" else pa.CompressedInputStream(content, "zstd")
