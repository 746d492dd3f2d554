"""A name of the JVM is looked up once."""

from collections.abc import Callable

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The commands that are sent to the JVM."""
    sent: list[str] = []
    send = ClientServerConnection.send_command

    def noted(connection: ClientServerConnection, command: str) -> str:
        sent.append(command)
        return str(send(connection, command))

    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    return sent


def upper(spark: SparkSession) -> None:
    F.upper(F.col("a"))


def path(spark: SparkSession) -> None:
    spark._jvm.org.apache.hadoop.fs.Path("a")


@pytest.mark.parametrize(("used", "calls"), [(upper, ["col", "upper"]), (path, ["org.apache.hadoop.fs.Path"])])
def test_what_was_used_before_is_not_looked_up_again(
    spark: SparkSession, sent: list[str], used: Callable[[SparkSession], None], calls: list[str]
) -> None:
    used(spark)
    del sent[:]
    used(spark)
    named = [command.split("\n") for command in sent if command[0] != "m"]
    assert [parts[2 if parts[0] == "c" else 1] for parts in named] == calls
