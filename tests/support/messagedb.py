"""A real message-db, in a PostgreSQL cluster that exists as long as a test needs it."""

import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hack.downloads import FOLDERS

from support.servers import free_ports, wait_until_it_listens
from support.waiting import scaled

START_SECONDS = 60
DATABASE = "message_store"
SETS = frozenset({"get_stream_messages", "get_category_messages", "get_last_stream_message"})
"""Functions that return messages; the others return one value."""
_JSON = frozenset({"data", "metadata"})


class RefusedError(Exception):
    """The server's error message."""


@dataclass(frozen=True)
class MessageDb:
    """A running message-db."""

    programs: Path
    environment: Mapping[str, str]

    def call(self, function: str, arguments: Mapping[str, Any]) -> Any:
        """A function's result, with its arguments by name: a list of messages, or one value.

        Raises:
            RefusedError: the server's error.
        """
        named = ", ".join(f'"{name}" => {_literal(name, value)}' for name, value in arguments.items())
        called = f"message_store.{function}({named})"
        if function in SETS:
            return json.loads(self._query(f"select coalesce(json_agg(m), '[]') from {called} m"))
        return json.loads(self._query(f"select coalesce(to_json({called}), 'null')"))

    def view(self, name: str) -> list[list[Any]]:
        """The rows of a view, each as its values in order of the columns; texts in order of their bytes."""
        rows = json.loads(self._query(f"select coalesce(json_agg(v), '[]') from message_store.{name} v"))
        return sorted(list(row.values()) for row in rows)

    def _query(self, sql: str) -> str:
        options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=terse"]
        done = subprocess.run(
            [self.programs / "psql", *options, "-d", DATABASE, "-c", sql],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RefusedError(done.stderr.removesuffix("\n").removeprefix("ERROR:  "))
        return done.stdout


@contextmanager
def running_message_db() -> Iterator[MessageDb]:
    """A PostgreSQL cluster with message-db in it, which is deleted afterwards."""
    programs, scripts = FOLDERS["postgresql"](), FOLDERS["message-db"]()
    with running_postgres() as port:
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PGHOST": "127.0.0.1",
            "PGPORT": str(port),
            "PGUSER": "postgres",
            "PGOPTIONS": "-c search_path=message_store,public -c client_min_messages=warning "
            "-c message_store.sql_condition=on",
        }
        _quietly(["bash", scripts / "install.sh"], env=environment)
        yield MessageDb(programs, environment)


@contextmanager
def running_postgres() -> Iterator[int]:
    """Create a PostgreSQL cluster on a free port of this machine, and yield the port; end and delete it afterwards.

    PostgreSQL refuses to run as root; then it runs as its own user.
    """
    programs = FOLDERS["postgresql"]()
    user: dict[str, Any] = {}
    if _is_root():
        user = {"user": "postgres", "group": pwd.getpwnam("postgres").pw_gid, "extra_groups": []}
    folder = Path(tempfile.mkdtemp(prefix="message-db-"))
    try:
        if user:
            shutil.chown(folder, "postgres")
        data, (port,) = folder / "data", free_ports(1)
        _quietly(
            [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N"],
            cwd=folder,
            **user,
        )
        settings = [f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
        options = [part for setting in settings for part in ("-c", setting)]
        with (folder / "server.log").open("wb") as log:
            server = subprocess.Popen(
                [programs / "postgres", "-D", data, *options], cwd=folder, stdout=log, stderr=log, **user
            )
        try:
            wait_until_it_listens("PostgreSQL", server, port, folder / "server.log", START_SECONDS)
            yield port
        finally:
            # Unlike SIGTERM, this waits for no client.
            server.send_signal(signal.SIGINT)
            server.wait(timeout=scaled(30))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _literal(name: str, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, int):
        return str(value)
    text = json.dumps(value) if name in _JSON else value
    return "'" + text.replace("'", "''") + "'"


def _is_root() -> bool:
    return os.geteuid() == 0


def _quietly(command: list[str | Path], **how: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, f"{command[0]}: {done.stderr or done.stdout}"
