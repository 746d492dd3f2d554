"""Reads and checks manifests; each problem has its file, line and field."""
