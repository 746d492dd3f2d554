"""An application that reads or writes a store needs no Spark, JVM, operator or Kafka client."""

import subprocess
import sys

ELSEWHERE = (
    "confluent_kafka",
    "delta",
    "kopf",
    "kubernetes",
    "messagestore_operator",
    "numpy",
    "py4j",
    "pyspark",
    "typer",
)

WITHOUT = f"""
import importlib, pkgutil, sys
for name in {ELSEWHERE}:
    sys.modules[name] = None
"""
IMPORT_ALL = f"""{WITHOUT}
import messagestore
for module in pkgutil.walk_packages(messagestore.__path__, "messagestore."):
    if module.name not in ("messagestore.kafka_groups", "messagestore.kafka_transactions"):
        importlib.import_module(module.name)
        print(module.name)
"""
MAKE_A_SINK = f"""{WITHOUT}
from messagestore.writer import KafkaSink
KafkaSink("orders", "127.0.0.1:9092")
"""


def test_the_library_imports_without_spark_and_without_the_operator() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "messagestore.reader" in done.stdout
    assert "messagestore.writer" in done.stdout


def test_a_topic_without_its_client_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", MAKE_A_SINK], capture_output=True, text=True, check=False)

    assert done.stderr.splitlines()[-1] == (
        "messagestore.errors.MessageStoreError: confluent_kafka is missing; in a clone of the project: "
        "pip install '.[library,kafka]'"
    )
