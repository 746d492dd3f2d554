"""Tests in a real cluster. They are a package so that the last of them can remove the cluster."""
