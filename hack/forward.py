"""Forward the same ports of this machine's loopback to the cluster's own network namespace.

The process listens in the namespace it was started in, then enters the cluster's: it accepts connections in the one and
connects in the other. So no route, no address and no interface of the machine changes.

python3 -m hack.forward NAMESPACE-FILE PORT...
"""

import asyncio
import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x40000000
CHUNK = 1 << 16


def main() -> None:
    """Run the command line."""
    namespace, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
    listeners = [socket.create_server(("127.0.0.1", port)) for port in ports]
    _enter(namespace)
    asyncio.run(_serve(listeners))


def _enter(namespace: str) -> None:
    """Enter ``namespace``: sockets that this process creates from now on belong to it; existing ones stay."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(namespace) as file:  # noqa: PTH123 (setns needs a descriptor)
        if libc.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)


async def _serve(listeners: list[socket.socket]) -> None:
    servers = [await asyncio.start_server(_connect, sock=listener) for listener in listeners]
    await asyncio.gather(*(server.serve_forever() for server in servers))


async def _connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    port = writer.get_extra_info("sockname")[1]
    try:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))
    for side in (writer, far_writer):
        side.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    """Copy bytes until the source ends, then end the target; if one side breaks, the other ends, too."""
    try:
        while chunk := await source.read(CHUNK):
            target.write(chunk)
            await target.drain()
        target.write_eof()
    except OSError:
        target.close()


if __name__ == "__main__":
    main()
