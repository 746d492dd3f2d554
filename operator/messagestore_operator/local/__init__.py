"""The local run: runs the resources of some files in order, in this process, on local Spark."""
