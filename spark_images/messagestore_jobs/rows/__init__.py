"""Reads and writes of a store's tables by Spark."""
