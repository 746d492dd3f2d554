"""Tests in a real cluster. They are a package so that the cluster may go with the last of them."""
