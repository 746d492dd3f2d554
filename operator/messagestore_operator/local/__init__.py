"""The local run: runs the resources of some files in order, in this process, on local Spark."""

from messagestore_operator.local.run import Console, LocalResult, LocalRun, local_problems
from messagestore_operator.local.spark import LocalSpark, SparkStartError

__all__ = ["Console", "LocalResult", "LocalRun", "LocalSpark", "SparkStartError", "local_problems"]
