"""Plain Spark, for sides that show what Spark does by itself."""

import os

from pyspark.sql import SparkSession

from messagestore_jobs.session import jars_folder


def plain_session() -> SparkSession:
    """Spark and Delta with their own defaults; cores, memory and zstd files as in the jobs."""
    jars = os.pathsep.join(sorted(str(jar) for jar in jars_folder().glob("*.jar")))
    builder = SparkSession.builder.master("local[2]").appName("plain")
    settings = {
        "spark.driver.memory": "6g",
        "spark.driver.extraClassPath": jars,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.parquet.compression.codec": "zstd",
        # Without it every task would sort its rows by day; the jobs avoid that, too, and it is not what is compared.
        "spark.sql.maxConcurrentOutputFileWriters": "8",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
