"""Spark's own ports require authentication."""

import socket
import struct
from pathlib import Path

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from support.waiting import scaled

RPC_REQUEST = 3


def test_a_driver_reads_nothing_from_an_unauthenticated_connection(spark: SparkSession) -> None:
    """Without authentication Spark would deserialize the message as a Java object."""
    assert "Unknown challenge message" in _answer(spark, b"\xac\xed\x00\x05sr\x00\x01a")


def test_python_and_its_jvm_talk_on_loopback_with_a_token(spark: SparkSession) -> None:
    gateway = spark.sparkContext._gateway
    known = gateway.gateway_parameters
    assert known.address == "127.0.0.1"
    assert f":{known.port:04X} " not in _listening_everywhere()
    stranger = JavaGateway(gateway_parameters=GatewayParameters(port=known.port))
    with pytest.raises(Py4JError):
        stranger.jvm.java.lang.System.currentTimeMillis()


def _listening_everywhere() -> str:
    """The kernel's lines about sockets that listen on all addresses."""
    lines = [line for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    anywhere = ("00000000:", "00000000000000000000000000000000:")
    return "\n".join(line for line in lines if line.split()[1].startswith(anywhere) and line.split()[3] == "0A")


def _answer(spark: SparkSession, body: bytes) -> str:
    """The answer to a request in the framing of Spark's RPC."""
    port = int(spark.conf.get("spark.driver.port") or 0)
    message = struct.pack(">Bqi", RPC_REQUEST, 1, len(body)) + body
    with socket.create_connection(("127.0.0.1", port), timeout=scaled(20)) as connection:
        connection.sendall(struct.pack(">q", 8 + len(message)) + message)
        return connection.recv(65536).decode(errors="replace")
