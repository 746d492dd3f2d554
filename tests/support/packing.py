"""Compressed files by the tools that people use, or by Python where a machine has none; and what they hold."""

import bz2
import gzip
import shutil
import subprocess
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pyarrow as pa

Packer = Callable[[bytes], bytes]
ZSTD = "zstd"
_SMALL = 4_096


def zstd(content: bytes, *options: str) -> bytes:
    """A frame by zstd(1)."""
    if shutil.which(ZSTD) is None:
        return bytes(pa.compress(content, codec=ZSTD, asbytes=True))
    return _by(ZSTD, content, *options)


def bzip2(content: bytes) -> bytes:
    """A stream by bzip2(1)."""
    return bz2.compress(content) if shutil.which("bzip2") is None else _by("bzip2", content)


def _by(tool: str, content: bytes, *options: str) -> bytes:
    return subprocess.run([tool, "-q", "-c", *options], input=content, stdout=subprocess.PIPE, check=True).stdout


def skipped(content: bytes) -> bytes:
    """A frame that readers of zstd skip."""
    return b"\x5e\x2a\x4d\x18" + len(content).to_bytes(4, "little") + content


PACKERS: dict[str, Packer] = {"gzip": lambda content: gzip.compress(content, mtime=0), "zstd": zstd, "bzip2": bzip2}


def compression(content: bytes) -> str | None:
    """How a file is compressed; None: not at all."""
    if content.startswith(b"\x1f\x8b"):
        return "gzip"
    if content.startswith(b"BZh") and content[4:10] in (b"1AY&SY", b"\x17rE8P\x90"):
        return "bzip2"
    return "zstd" if content.startswith((b"\x28\xb5\x2f\xfd", b"\x5e\x2a\x4d\x18")) else None


def unpacked(content: bytes) -> tuple[bytes, bool]:
    """What a file holds, at most 250 times its size, and whether more was to follow: it is damaged or too large."""
    packed, most = compression(content), max(16 << 20, 250 * len(content))
    if packed is None:
        return content, False
    if packed == "zstd":
        stripped = content.rstrip(b"\0")
        # The last bytes of a frame may be zero too.
        tries = (_frames(stripped + bytes(zeros), most) for zeros in range(len(content) - len(stripped))[:5])
        whole = _frames(content, most)
        plain, broken = next((one for one in tries if not one[1]), whole) if whole[1] else whole
        if broken and len(content) <= _SMALL:
            # The library loses a block that it unpacked just before damage; not so if the file ends there.
            plain = max((_frames(content[:end], most)[0] for end in range(len(content) + 1)), key=len)
    else:
        plain, broken = _members(content, bz2.BZ2Decompressor if packed == "bzip2" else _gunzip, most)
    return plain[:most], broken or len(plain) > most


def _gunzip() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=31)


def _members(content: bytes, unpacker: Callable[[], Any], most: int) -> tuple[bytes, bool]:
    plain = b""
    while content and len(plain) <= most:
        member = unpacker()
        try:
            plain += member.decompress(content)
        except (zlib.error, OSError):
            return plain + _before_damage(content, unpacker()), True
        if not member.eof:
            return plain, True
        content = member.unused_data.lstrip(b"\0")
    return plain, False


def _before_damage(content: bytes, member: Any) -> bytes:
    """Unpack byte by byte, so that nothing before the damage is lost."""
    plain = bytearray()
    with suppress(zlib.error, OSError):
        for byte in content:
            plain += member.decompress(bytes([byte]))
    return bytes(plain)


def _frames(content: bytes, most: int) -> tuple[bytes, bool]:
    plain = bytearray()
    try:
        with pa.CompressedInputStream(pa.py_buffer(content), ZSTD) as frames:
            while (some := frames.read(1)) and len(plain) <= most:
                plain += some
    except OSError:
        return bytes(plain), True
    return bytes(plain), False
