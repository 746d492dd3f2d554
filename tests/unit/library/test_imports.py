"""An application that reads or writes a store needs neither Spark, nor a JVM, nor the operator."""

import subprocess
import sys

ELSEWHERE = ("delta", "kopf", "kubernetes", "messagestore_operator", "numpy", "py4j", "pyspark", "typer")

IMPORT_ALL = f"""
import importlib, pkgutil, sys
for name in {ELSEWHERE}:
    sys.modules[name] = None
import messagestore
for module in pkgutil.walk_packages(messagestore.__path__, "messagestore."):
    importlib.import_module(module.name)
    print(module.name)
"""


def test_the_library_imports_without_spark_and_without_the_operator() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "messagestore.reader" in done.stdout
