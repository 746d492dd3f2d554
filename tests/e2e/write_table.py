"""A driver's program for a test: its executor writes a Delta table to object storage."""

import sys

from pyspark.sql import SparkSession

session = SparkSession.builder.getOrCreate()
session.range(1000, numPartitions=4).write.format("delta").save(sys.argv[1])
sys.stdout.write(f"rows {session.read.format('delta').load(sys.argv[1]).count()}\n")
session.stop()
