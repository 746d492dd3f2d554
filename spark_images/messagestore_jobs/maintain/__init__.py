"""Maintenance: keep a store fast and small; no row changes."""
