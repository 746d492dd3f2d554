"""Expressions cost few calls into the JVM."""

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def test_a_function_that_was_used_before_is_not_looked_up_again(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    send = ClientServerConnection.send_command

    def noted(connection: ClientServerConnection, command: str) -> str:
        sent.append(command)
        return str(send(connection, command))

    F.upper(F.col("a"))
    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    F.upper(F.col("b"))
    assert [command.split("\n")[2] for command in sent if command[0] != "m"] == ["col", "upper"]
